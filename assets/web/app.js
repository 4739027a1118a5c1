// Which view is on screen. The address is the state: `#/`, `#/folder?path=…`, `#/play?path=…`, `#/setup?code=…`.

import * as api from "./api.js";
import { browse } from "./browse.js";
import { h } from "./dom.js";
import { play } from "./player.js";
import { signIn } from "./signin.js";
import { TEXT, explain } from "./strings.js";

const view = document.getElementById("view");
const account = document.getElementById("account");

let leave = null; // What the view on screen must do when it goes.
let turn = 0; // Counts views, so that a slow answer never lands in the next one.
let message = null;

function address() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  return { name: path || "/", params: new URLSearchParams(query) };
}

async function show() {
  const mine = ++turn;
  leave?.();
  leave = null;
  const { name, params } = address();
  view.classList.toggle("playing", name === "/play");
  view.replaceChildren(h("p", { class: "quiet loading" }, TEXT.loading));
  const stage = h("div", { class: "stage" });
  const swap = () => mine === turn && view.firstElementChild !== stage && view.replaceChildren(stage);
  try {
    if (!api.signedIn()) {
      account.replaceChildren();
      const done = () => {
        message = null;
        if (name === "/setup") location.replace("#/");
        else show();
      };
      await signIn(stage, { code: params.get("code"), message, done });
      swap();
      stage.querySelector("input:not([value]), input[value='']")?.focus();
      return;
    }
    if (name === "/setup") {
      location.replace("#/");
      return;
    }
    bar();
    const path = params.get("path");
    if (name === "/play" && path) {
      swap();
      const stop = play(stage, path);
      if (mine === turn) leave = stop;
      else stop();
    } else {
      await browse(stage, name === "/folder" ? path : null);
      swap();
    }
  } catch (error) {
    if (mine !== turn) return;
    view.replaceChildren(h("div", { class: "card" },
      h("p", { class: "notice", role: "alert" }, error.code === "OFFLINE" ? TEXT.offline : explain(error)),
      h("button", { onclick: show }, "Try again")));
  }
}

function bar() {
  if (account.firstChild) return;
  account.replaceChildren(h("button", {
    class: "plain",
    onclick: async () => {
      await api.signOut();
      message = null;
      location.hash = "#/";
      show();
    },
  }, TEXT.signOut));
}

window.addEventListener("hashchange", show);
window.addEventListener("signed-out", () => {
  message = TEXT.expired;
  show();
});
window.addEventListener("pagehide", () => leave?.({ leaving: true }));
window.addEventListener("pageshow", (event) => event.persisted && show());
show();
