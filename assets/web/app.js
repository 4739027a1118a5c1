// Which screen is shown. The address is the state: `#/`, `#/library?path=…`, `#/play?path=…`, `#/book?path=…`, `#/guide`,
// `#/watch?channel=…`, `#/settings`, `#/setup?code=…`. A screen is a function `(stage, params) => { leave?, key? }`.

import * as api from "./api.js";
import { h } from "./dom.js";
import { belongsTo, first, focus, keyName, move } from "./keys.js";
import { TEXT, explain } from "./strings.js";

const view = document.getElementById("view");
const menu = document.getElementById("menu");
const account = document.getElementById("account");

/** Screens by address; each comes with its modules when it is first shown. */
const SCREENS = {
  "/": async () => (await import("./home.js")).home,
  "/library": async () => (await import("./library.js")).library,
  "/file": async () => (await import("./item.js")).item,
  "/play": async () => (await import("./player.js")).play,
  "/book": async () => (await import("./book.js")).book,
  "/guide": async () => (await import("./guide.js")).guide,
  "/watch": async () => (await import("./watch.js")).watch,
  "/settings": async () => (await import("./settings.js")).settings,
  "/welcome": async () => (await import("./welcome.js")).welcome,
};

/** What fills the whole window. */
const WHOLE = new Set(["/play", "/book", "/watch"]);

let screen = {}; // What the one shown gave back.
let turn = 0; // Counts screens, so that a slow answer never lands in the next one.
let message = null;
let byKey = !matchMedia("(pointer: fine)").matches; // Whether keys are pressed here: only then the focus moves by itself.
const focused = new Map(); // What was focused where, for the way back.
let at = "";

function address() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  return { name: path || "/", params: new URLSearchParams(query) };
}

const nameOf = (element) => element?.getAttribute?.("href") ?? element?.dataset?.key ?? null;

async function show() {
  const mine = ++turn;
  if (view.contains(document.activeElement)) focused.set(at, nameOf(document.activeElement));
  screen.leave?.();
  screen = {};
  const { name, params } = address();
  at = location.hash;
  document.body.classList.toggle("whole", WHOLE.has(name) && api.signedIn());
  const stage = h("div", { class: "stage" }, h("p", { class: "quiet loading" }, TEXT.loading));
  view.replaceChildren(stage);
  window.scrollTo(0, 0);
  try {
    if (!api.signedIn()) {
      menu.hidden = true;
      account.replaceChildren();
      const { signIn } = await import("./signin.js");
      const done = (fresh) => {
        message = null;
        if (fresh) location.replace("#/welcome");
        else if (name === "/setup") location.replace("#/");
        else show();
      };
      if (mine === turn) await signIn(stage, { code: params.get("code"), message, done });
      return;
    }
    if (name === "/setup" || !SCREENS[name]) {
      location.replace("#/");
      return;
    }
    bar(name);
    const open = await SCREENS[name]();
    if (mine !== turn) return;
    const given = (await open(stage, params)) ?? {};
    if (mine !== turn) given.leave?.();
    else screen = given;
    if (mine === turn) settle(stage);
  } catch (error) {
    if (mine !== turn || error.name === "AbortError") return;
    stage.replaceChildren(h("div", { class: "card" },
      h("p", { class: "notice", role: "alert" }, error.code === "OFFLINE" ? TEXT.offline : explain(error)),
      h("button", { onclick: show, "data-first": true }, TEXT.again)));
    settle(stage);
  }
}

/** Puts the focus where it was here before, or on what comes first. */
function settle(stage) {
  if (!byKey || stage.contains(document.activeElement)) return;
  const before = focused.get(at);
  const known = before && [...stage.querySelectorAll("a, button, [data-key]")].find((element) => nameOf(element) === before);
  focus(known ?? first(stage));
}

function bar(name) {
  menu.hidden = false;
  for (const link of menu.querySelectorAll("a")) {
    const here = link.getAttribute("href") === `#${name}` || (name === "/file" && link.getAttribute("href") === "#/library");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
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

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) return;
  byKey = true;
  const name = keyName(event);
  if (belongsTo(document.activeElement, name)) return;
  if (screen.key?.(name, event) || general(name)) event.preventDefault();
});
document.addEventListener("pointerdown", () => { byKey = false; }, true);

/** What a key does on every screen. */
function general(name) {
  if (name.startsWith("Arrow")) return move(name);
  if (name === "Back") {
    if (address().name === "/") return false; // A television leaves the page with it.
    history.back();
    return true;
  }
  if (name === "Space" && document.activeElement?.matches("a")) {
    document.activeElement.click();
    return true;
  }
  return false;
}

for (const [address, label] of [["#/", TEXT.home], ["#/library", TEXT.library], ["#/guide", TEXT.guide], ["#/settings", TEXT.settings]]) {
  menu.append(h("a", { href: address }, label));
}
window.addEventListener("hashchange", show);
window.addEventListener("signed-out", () => {
  message = TEXT.expired;
  show();
});
window.addEventListener("pagehide", () => screen.leave?.({ leaving: true }));
window.addEventListener("pageshow", (event) => event.persisted && show());
show();
