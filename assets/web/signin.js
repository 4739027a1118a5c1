// Signing in, and making the first account of a new server.

import * as api from "./api.js";
import { h } from "./dom.js";
import { TEXT, explain } from "./strings.js";

/**
 * Shows the form that fits: set-up while the server has no admin, else sign-in. `code` comes from a one-time link;
 * `done(fresh)` is called once signed in, `fresh` on a server that was just set up.
 */
export async function signIn(view, { code, message, done }) {
  const { setupRequired } = await api.authStatus();
  view.replaceChildren(setupRequired ? setUpForm(code, done) : signInForm(message, done));
  const first = [...view.querySelectorAll("input")].find((input) => !input.value);
  first?.focus();
}

function signInForm(message, done) {
  return form({
    title: "Welcome back",
    intro: message ?? "Sign in to your library.",
    fields: [field("Name", "username", { autocomplete: "username", autocapitalize: "none", spellcheck: "false" }),
      field("Password", "password", { type: "password", autocomplete: "current-password" })],
    button: "Sign in",
    submit: ({ username, password }) => api.signIn(username, password),
    done: () => done(false),
  });
}

function setUpForm(code, done) {
  return form({
    step: TEXT.step(1, 3),
    title: "Set up Hearthcast",
    intro: code
      ? "Choose a name and a password. This account will look after the server."
      : "Choose a name and a password. The set-up code is in the server’s console.",
    fields: [
      field("Set-up code", "code", { autocomplete: "off", spellcheck: "false", value: code ?? "" }),
      field("Name", "username", { autocomplete: "username", autocapitalize: "none", spellcheck: "false" }),
      field("Password", "password", { type: "password", autocomplete: "new-password", minlength: 8 }),
    ],
    button: "Create account",
    submit: async ({ code: given, username, password }) => {
      const made = await api.setUp(given.trim(), username, password);
      return made.token ? made : api.signIn(username, password);
    },
    done: () => done(true),
  });
}

function field(label, name, attributes) {
  return h("label", { class: "field" }, h("span", {}, label), h("input", { name, required: true, ...attributes }));
}

function form({ step, title, intro, fields, button, submit, done }) {
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const send = h("button", { class: "primary" }, button);
  const onsubmit = async (event) => {
    event.preventDefault();
    send.disabled = true;
    notice.hidden = true;
    try {
      const { token } = await submit(Object.fromEntries(new FormData(event.target)));
      api.remember(token);
      done();
    } catch (error) {
      notice.textContent = error.code === "OFFLINE" ? TEXT.offline : explain(error);
      notice.hidden = false;
      send.disabled = false;
    }
  };
  return h("form", { class: "card", onsubmit },
    h("img", { src: api.at("/web/logo.svg"), alt: "", width: 56, height: 56 }),
    step && h("p", { class: "quiet" }, step), h("h1", {}, title), h("p", { class: "quiet" }, intro), ...fields, notice, send);
}
