// Navigation. The URL's fragment is the state: `#/`, `#/library?path=…`, `#/play?path=…`, `#/book?path=…`, `#/guide`,
// `#/watch?channel=…`, `#/settings`, `#/setup?code=…`. A screen is a function `(stage, params) => { leave?, handleKey? }`.

import * as api from "./api.js";
import { h } from "./dom.js";
import { findFirst, focus, handlesKey, keyName, moveFocus } from "./keys.js";
import { TEXT, errorText } from "./strings.js";

const main = document.getElementById("view");
const menu = document.getElementById("menu");
const account = document.getElementById("account");

/** Screens by address; the modules of a screen are loaded when it is first shown. */
const SCREENS = {
  "/": async () => (await import("./home.js")).showHome,
  "/library": async () => (await import("./library.js")).showLibrary,
  "/file": async () => (await import("./item.js")).showItem,
  "/play": async () => (await import("./player.js")).showPlayer,
  "/book": async () => (await import("./book.js")).showBook,
  "/guide": async () => (await import("./guide.js")).showGuide,
  "/watch": async () => (await import("./watch.js")).showChannel,
  "/settings": async () => (await import("./settings.js")).showSettings,
  "/welcome": async () => (await import("./welcome.js")).showWelcome,
};

/** Screens that fill the whole window. */
const FULL_WINDOW = new Set(["/play", "/book", "/watch"]);

let screen = {}; // The value that the current screen returned.
let navigations = 0; // Counts navigations, so that a slow response is not drawn into a later screen.
let message = null;
let usesKeyboard = !matchMedia("(pointer: fine)").matches; // Focus moves by itself only for keyboard users.
const lastFocus = new Map(); // By address: the key of the element that had the focus, so that Back restores it.
let currentHash = "";

function parseHash() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  return { name: path || "/", params: new URLSearchParams(query) };
}

const focusKey = (element) => element?.getAttribute?.("href") ?? element?.dataset?.key ?? null;

async function showScreen() {
  const navigation = ++navigations;
  if (main.contains(document.activeElement)) lastFocus.set(currentHash, focusKey(document.activeElement));
  screen.leave?.();
  screen = {};
  const { name, params } = parseHash();
  currentHash = location.hash;
  document.body.classList.toggle("full-window", FULL_WINDOW.has(name) && api.isSignedIn());
  const stage = h("div", { class: "stage" }, h("p", { class: "muted loading" }, TEXT.loading));
  main.replaceChildren(stage);
  window.scrollTo(0, 0);
  try {
    if (!api.isSignedIn()) {
      menu.hidden = true;
      account.replaceChildren();
      const { showSignIn } = await import("./signin.js");
      const done = (isNewServer) => {
        message = null;
        if (isNewServer) location.replace("#/welcome");
        else if (name === "/setup") location.replace("#/");
        else showScreen();
      };
      if (navigation === navigations) await showSignIn(stage, { code: params.get("code"), message, done });
      return;
    }
    if (name === "/setup" || !SCREENS[name]) {
      location.replace("#/");
      return;
    }
    updateMenu(name);
    const openScreen = await SCREENS[name]();
    if (navigation !== navigations) return;
    const opened = (await openScreen(stage, params)) ?? {};
    if (navigation !== navigations) opened.leave?.();
    else screen = opened;
    if (navigation === navigations) restoreFocus(stage);
  } catch (error) {
    if (navigation !== navigations || error.name === "AbortError") return;
    stage.replaceChildren(h("div", { class: "card" },
      h("p", { class: "notice", role: "alert" }, error.code === "OFFLINE" ? TEXT.offline : errorText(error)),
      h("button", { onclick: showScreen, "data-first": true }, TEXT.tryAgain)));
    restoreFocus(stage);
  }
}

/** Focuses the element that had the focus here before, or the first one. */
function restoreFocus(stage) {
  if (!usesKeyboard || stage.contains(document.activeElement)) return;
  const key = lastFocus.get(currentHash);
  const element = key && [...stage.querySelectorAll("a, button, [data-key]")].find((element) => focusKey(element) === key);
  focus(element ?? findFirst(stage));
}

function updateMenu(name) {
  menu.hidden = false;
  for (const link of menu.querySelectorAll("a")) {
    const isCurrent = link.getAttribute("href") === `#${name}` || (name === "/file" && link.getAttribute("href") === "#/library");
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (account.firstChild) return;
  account.replaceChildren(h("button", {
    class: "plain",
    onclick: async () => {
      await api.signOut();
      message = null;
      location.hash = "#/";
      showScreen();
    },
  }, TEXT.signOut));
}

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) return;
  usesKeyboard = true;
  const name = keyName(event);
  if (handlesKey(document.activeElement, name)) return;
  if (screen.handleKey?.(name, event) || handleGlobalKey(name)) event.preventDefault();
});
document.addEventListener("pointerdown", () => { usesKeyboard = false; }, true);

/** Keys that work on every screen. */
function handleGlobalKey(name) {
  if (name.startsWith("Arrow")) return moveFocus(name);
  if (name === "Back") {
    if (parseHash().name === "/") return false; // On a television, this key then leaves the page.
    history.back();
    return true;
  }
  if (name === "Space" && document.activeElement?.matches("a")) {
    document.activeElement.click();
    return true;
  }
  return false;
}

for (const [href, label] of [["#/", TEXT.home], ["#/library", TEXT.library], ["#/guide", TEXT.guide], ["#/settings", TEXT.settings]]) {
  menu.append(h("a", { href }, label));
}
window.addEventListener("hashchange", showScreen);
window.addEventListener("signed-out", () => {
  message = TEXT.signedOut;
  showScreen();
});
window.addEventListener("pagehide", () => screen.leave?.({ unloading: true }));
window.addEventListener("pageshow", (event) => event.persisted && showScreen());
showScreen();
