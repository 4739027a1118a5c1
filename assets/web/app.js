// Navigation. The URL's fragment is the state: `#/`, `#/library?path=…`, `#/play?path=…`, `#/book?path=…`, `#/guide`,
// `#/watch?channel=…`, `#/settings`, `#/setup?code=…`. A screen is a function `(stage, params, place) => Screen`.

import * as api from "./api.js";
import { h } from "./dom.js";
import { findFirst, focus, handlesKey, keyName, moveFocus } from "./keys.js";
import { TEXT, errorText } from "./strings.js";

/**
 * What a screen returns. `getPlace` is what `place` will be when the user comes back to it. A player also has `getAddress`, and
 * it continues in a corner (`setMini`) while the user browses if `keepsPlaying()`.
 * @typedef {object} Screen
 * @property {(options?: { unloading: boolean }) => void} [leave]
 * @property {(name: string) => boolean} [handleKey]
 * @property {() => object} [getPlace]
 * @property {() => string} [getAddress]
 * @property {() => boolean} [keepsPlaying]
 * @property {(isMini: boolean) => void} [setMini]
 */

const screenHost = document.getElementById("screen");
const playerHost = document.getElementById("player");
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

/** Entries of the browser's history whose places are kept. */
const MAX_PLACES = 50;

/** @type {Screen} */
let screen = {}; // What the current screen returned.
/** @type {Screen | null} */
let docked = null; // The player that continues while the user browses.
let isPlayerShown = false; // Whether the current screen fills the window.
let navigations = 0; // Counts navigations, so that a slow response is not drawn into a later screen.
let message = null;
// Focus moves by itself only for users of a keyboard or a remote control.
let usesKeyboard = !matchMedia("(pointer: fine)").matches && navigator.maxTouchPoints === 0;
const lastFocus = new Map(); // By address: the key of the element that had the focus, so that Back restores it.
const places = new Map(); // By entry of the browser's history: where it was scrolled to, and what the screen keeps.
let currentHash = "";
let currentEntry = null;
history.scrollRestoration = "manual";

function parseHash() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  return { name: path || "/", params: new URLSearchParams(query) };
}

const focusKey = (element) => element?.getAttribute?.("href") ?? element?.dataset?.key ?? null;

/** The id of the current entry of the browser's history, which stays with it. */
function entryId() {
  if (!history.state?.entry) history.replaceState({ ...history.state, entry: `${Date.now()} ${Math.random()}` }, "");
  return history.state.entry;
}

/** Keeps the place and the focus of the screen that is left. */
function keepPlace() {
  if (document.activeElement?.closest("#view")) lastFocus.set(currentHash, focusKey(document.activeElement));
  if (!currentEntry || isPlayerShown) return;
  places.delete(currentEntry);
  places.set(currentEntry, { top: scrollY, kept: screen.getPlace?.() });
  if (places.size > MAX_PLACES) places.delete(places.keys().next().value);
}

/** Leaves the current screen. A player that keeps playing moves to the corner, unless another one comes. */
function leaveScreen(isPlayerNext) {
  if (isPlayerShown && !isPlayerNext && api.isSignedIn() && screen.keepsPlaying?.()) {
    docked = screen;
    playerHost.classList.add("mini");
    docked.setMini(true);
  } else {
    screen.leave?.();
    if (isPlayerShown) playerHost.replaceChildren();
  }
  screen = {};
}

function closeDocked() {
  if (!docked) return;
  docked.leave();
  docked = null;
  playerHost.classList.remove("mini");
  playerHost.replaceChildren();
}

async function showScreen() {
  const navigation = ++navigations;
  const { name, params } = parseHash();
  const isPlayer = FULL_WINDOW.has(name) && api.isSignedIn();
  keepPlace();
  leaveScreen(isPlayer);
  [currentHash, currentEntry, isPlayerShown] = [location.hash, entryId(), isPlayer];
  document.body.classList.toggle("full-window", isPlayer);
  if (isPlayer && docked?.getAddress() === location.hash) {
    [screen, docked] = [docked, null];
    playerHost.classList.remove("mini");
    screenHost.replaceChildren();
    screen.setMini(false);
    return;
  }
  if (isPlayer || !api.isSignedIn()) closeDocked();
  const stage = h("div", { class: "stage" }, h("p", { class: "muted loading" }, TEXT.loading));
  if (isPlayer) screenHost.replaceChildren();
  (isPlayer ? playerHost : screenHost).replaceChildren(stage);
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
    const place = places.get(currentEntry);
    const openScreen = await SCREENS[name]();
    if (navigation !== navigations) return;
    const opened = (await openScreen(stage, params, place?.kept)) ?? {};
    if (navigation !== navigations) opened.leave?.();
    else screen = opened;
    if (navigation !== navigations) return;
    restoreFocus(stage);
    if (place) window.scrollTo(0, place.top);
  } catch (error) {
    if (navigation !== navigations || error.name === "AbortError") return;
    stage.replaceChildren(h("div", { class: "card" },
      h("p", { class: "notice", role: "alert" }, error.text ?? errorText(error)),
      h("div", { class: "actions" },
        h("button", { class: "primary", onclick: showScreen, "data-first": true }, TEXT.tryAgain),
        h("a", { class: "button", href: "#/" }, TEXT.goHome))));
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
  const isHandled = screen.handleKey?.(name) || handleGlobalKey(name) || (name.startsWith("Media") && docked?.handleKey(name));
  if (isHandled) event.preventDefault();
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

const skipLink = document.querySelector(".skip");
skipLink.textContent = TEXT.skipToContent;
skipLink.addEventListener("click", (event) => {
  event.preventDefault(); // The fragment is the address of a screen.
  document.getElementById("view").focus();
});
menu.setAttribute("aria-label", TEXT.mainMenu);
for (const [href, label] of [["#/", TEXT.home], ["#/library", TEXT.library], ["#/guide", TEXT.guide], ["#/settings", TEXT.settings]]) {
  menu.append(h("a", { href }, label));
}
window.addEventListener("hashchange", showScreen);
window.addEventListener("signed-out", () => {
  message = TEXT.signedOut;
  showScreen();
});
// The buttons of a player.
playerHost.addEventListener("minimise", () => {
  if (history.length > 1 && navigations > 1) history.back();
  else location.hash = "#/";
});
playerHost.addEventListener("dismiss", closeDocked);
window.addEventListener("pagehide", () => {
  for (const left of [screen, docked]) left?.leave?.({ unloading: true });
});
window.addEventListener("pageshow", (event) => event.persisted && showScreen());
showScreen();
