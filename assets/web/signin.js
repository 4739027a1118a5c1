// The sign-in form, and the form for the first account of a new server.

import * as api from "./api.js";
import { h } from "./dom.js";
import { TEXT, errorText, fieldError } from "./strings.js";

/**
 * Shows the set-up form while the server has no admin, otherwise the sign-in form. `code` comes from a one-time link.
 * `done(isNewServer)` is called once signed in.
 */
export async function showSignIn(stage, { code, message, done }) {
  const { setupRequired } = await api.getAuthStatus();
  stage.replaceChildren(setupRequired ? setUpForm(code, done) : signInForm(message, done));
  const first = [...stage.querySelectorAll("input")].find((input) => !input.value);
  first?.focus();
}

function signInForm(message, done) {
  return form({
    title: TEXT.welcomeBack,
    intro: message ?? TEXT.signInIntro,
    fields: [field(TEXT.name, "username", { autocomplete: "username", autocapitalize: "none", spellcheck: "false" }),
      field(TEXT.password, "password", { type: "password", autocomplete: "current-password" })],
    button: TEXT.signIn,
    submit: ({ username, password }) => api.signIn(username, password),
    done: () => done(false),
  });
}

function setUpForm(code, done) {
  const codeField = field(TEXT.setUpCode, "code", { autocomplete: "off", spellcheck: "false", value: code ?? "" });
  codeField.hidden = Boolean(code); // The link brought it.
  return form({
    step: TEXT.step(1, 3),
    title: TEXT.setUp,
    intro: code ? TEXT.setUpIntro : TEXT.setUpIntroWithCode,
    fields: [
      codeField,
      field(TEXT.name, "username", { autocomplete: "username", autocapitalize: "none", spellcheck: "false" }),
      field(TEXT.password, "password", { type: "password", autocomplete: "new-password", minlength: 8 }),
    ],
    button: TEXT.createAccount,
    submit: async ({ code: setUpCode, username, password }) => {
      const account = await api.setUp(setUpCode.trim(), username, password).catch((error) => {
        if (error.code !== "INVALID_CREDENTIALS") throw error;
        codeField.hidden = false;
        throw fieldError("code");
      });
      return account.token ? account : api.signIn(username, password);
    },
    done: () => done(true),
  });
}

function field(label, name, attributes) {
  return h("label", { class: "field" }, h("span", {}, label), h("input", { name, required: true, ...attributes }));
}

/** @param {{ step?: string, title: string, intro: string, fields: HTMLElement[], button: string, submit: Function, done: () => void }} options */
function form({ step, title, intro, fields, button, submit, done }) {
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const submitButton = h("button", { class: "primary" }, button);
  const onsubmit = async (event) => {
    event.preventDefault();
    submitButton.disabled = true;
    notice.hidden = true;
    try {
      const { token } = await submit(Object.fromEntries(new FormData(event.target)));
      api.setToken(token);
      done();
    } catch (error) {
      notice.textContent = errorText(error);
      notice.hidden = false;
      submitButton.disabled = false;
    }
  };
  return h("form", { class: "card", onsubmit },
    h("img", { src: api.resolvePath("/web/logo.svg"), alt: "", width: 56, height: 56 }),
    step && h("p", { class: "muted" }, step), h("h1", {}, title), h("p", { class: "muted" }, intro), ...fields, notice, submitButton);
}
