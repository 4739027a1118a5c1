// Navigation. The URL's fragment is the state: `#/`, `#/library?kind=…`, `#/item?id=…`, `#/series?id=…`, `#/search?q=…`, `#/play?path=…`,
// `#/book?path=…`, `#/guide`, `#/recordings`, `#/watch?channel=…`, `#/settings`, `#/profiles`, `#/setup?code=…`. A screen is a function `(stage, params, place) => Screen`.

import { refreshAccountPreferences } from "./account-preferences.js";
import * as api from "./api.js";
import { avatar } from "./avatar.js";
import { h, icon } from "./dom.js";
import { installShell } from "./install.js";
import { findFirst, focus, handlesKey, keyName, moveFocus } from "./keys.js";
import { searchLink } from "./links.js";
import { TEXT, errorText } from "./strings.js";
import "./theme.js";

/**
 * What a screen returns. `getPlace` is what `place` will be when the user comes back to it. A player also has `getAddress`, and
 * it continues in a corner (`setMini`) while the user browses if `keepsPlaying()`. `search` shows results for other words.
 * @typedef {object} Screen
 * @property {(options?: { unloading: boolean }) => void} [leave]
 * @property {(name: string) => boolean} [handleKey]
 * @property {() => object} [getPlace]
 * @property {(words: string) => void} [search]
 * @property {() => string} [getAddress]
 * @property {() => boolean} [keepsPlaying]
 * @property {(isMini: boolean) => void} [setMini]
 */

const screenHost = document.getElementById("screen");
const playerHost = document.getElementById("player");
const menu = document.getElementById("menu");
const searchForm = document.getElementById("search");
const account = document.getElementById("account");

/** Screens by address; the modules of a screen are loaded when it is first shown. */
const SCREENS = {
  "/": async () => (await import("./home.js")).showHome,
  "/library": async () => (await import("./library.js")).showLibrary,
  "/file": async () => (await import("./item.js")).showItem,
  "/item": async () => (await import("./item.js")).showItem,
  "/series": async () => (await import("./series.js")).showSeries,
  "/album": async () => (await import("./album.js")).showAlbum,
  "/search": async () => (await import("./search.js")).showSearch,
  "/play": async () => (await import("./player.js")).showPlayer,
  "/book": async () => (await import("./book.js")).showBook,
  "/guide": async () => (await import("./guide.js")).showGuide,
  "/recordings": async () => (await import("./recordings.js")).showRecordings,
  "/watch": async () => (await import("./watch.js")).showChannel,
  "/settings": async () => (await import("./settings.js")).showSettings,
  "/profiles": async () => (await import("./profiles.js")).showProfiles,
  "/welcome": async () => (await import("./welcome.js")).showWelcome,
};

/** Screens that fill the whole window. */
const FULL_WINDOW = new Set(["/play", "/book", "/watch"]);

/** Screens of what the library has. */
const IN_LIBRARY = new Set(["/library", "/file", "/item", "/series", "/album"]);

/** Entries of the browser's history whose places are kept. */
const MAX_PLACES = 50;

/** @type {Screen} */
/** Tiles that stand for a screen while it is loaded. */
const GHOSTS = 12;

let screen = {}; // What the current screen returned.
/** @type {Screen | null} */
let docked = null; // The player that continues while the user browses.
let isPlayerShown = false; // Whether the current screen fills the window.
let navigations = 0; // Counts navigations, so that a slow response is not drawn into a later screen.
let message = null;
// Focus moves by itself only for users of a keyboard or a remote control.
let usesKeyboard = !matchMedia("(pointer: fine)").matches && navigator.maxTouchPoints === 0;
const places = new Map(); // By entry of the browser's history: where it was scrolled to, what had the focus, and what the screen keeps.
let currentEntry = null;
history.scrollRestoration = "manual";

function parseHash() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  return { name: path || "/", params: new URLSearchParams(query) };
}

/** What identifies a control when its screen is drawn again: its address or key, and its row, since rows may have the same address. */
function focusKey(element) {
  const own = element?.getAttribute?.("href") ?? element?.dataset?.key;
  return own ? `${element.closest("[data-row]")?.dataset.row ?? ""} ${own}` : null;
}

/** The id of the current entry of the browser's history, which stays with it. */
function entryId() {
  if (!history.state?.entry) history.replaceState({ ...history.state, entry: `${Date.now()} ${Math.random()}` }, "");
  return history.state.entry;
}

/** Keeps the place and the focus of the screen that is left. */
function keepPlace() {
  if (!currentEntry || isPlayerShown) return;
  const focused = document.activeElement?.closest("#view") ? focusKey(document.activeElement) : null;
  places.delete(currentEntry);
  places.set(currentEntry, { top: scrollY, focused, kept: screen.getPlace?.() });
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
  [currentEntry, isPlayerShown] = [entryId(), isPlayer];
  document.body.classList.toggle("full-window", isPlayer);
  if (isPlayer && docked?.getAddress() === location.hash) {
    [screen, docked] = [docked, null];
    playerHost.classList.remove("mini");
    screenHost.replaceChildren();
    screen.setMini(false);
    return;
  }
  if (isPlayer || !api.isSignedIn()) closeDocked();
  const hasTiles = name === "/" || IN_LIBRARY.has(name);
  const stage = h("div", { class: "stage" }, h("p", { class: "muted loading" }, TEXT.loading),
    hasTiles && h("div", { class: "ghosts", "aria-hidden": "true" }, ...Array.from({ length: GHOSTS }, () => h("span"))));
  if (isPlayer) screenHost.replaceChildren();
  (isPlayer ? playerHost : screenHost).replaceChildren(stage);
  window.scrollTo(0, 0);
  try {
    if (!api.isSignedIn()) {
      menu.hidden = true;
      searchForm.hidden = true;
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
    updateMenu(name, params);
    const place = places.get(currentEntry);
    const [openScreen] = await Promise.all([SCREENS[name](), refreshAccountPreferences()]);
    if (navigation !== navigations) return;
    const opened = (await openScreen(stage, params, place?.kept)) ?? {};
    if (navigation !== navigations) opened.leave?.();
    else screen = opened;
    if (navigation !== navigations) return;
    const words = parseHash().params.get("q"); // More may have been typed meanwhile.
    if (words !== params.get("q")) screen.search?.(words ?? "");
    restoreFocus(stage, place?.focused);
    if (place) window.scrollTo(0, place.top);
  } catch (error) {
    if (navigation !== navigations || error.name === "AbortError") return;
    stage.replaceChildren(h("div", { class: "card" },
      h("p", { class: "notice", role: "alert" }, errorText(error)),
      h("div", { class: "actions" },
        h("button", { class: "primary", onclick: showScreen, "data-first": true }, TEXT.tryAgain),
        h("a", { class: "button", href: "#/" }, TEXT.goHome))));
    restoreFocus(stage);
  }
}

/** Focuses the element that had the focus here before, or the first one. */
function restoreFocus(stage, key) {
  if (!usesKeyboard || stage.contains(document.activeElement) || document.activeElement === searchField) return;
  const element = key && [...stage.querySelectorAll("a, button, [data-key]")].find((element) => focusKey(element) === key);
  focus(element ?? findFirst(stage));
}

function updateMenu(name, params) {
  menu.hidden = false;
  searchForm.hidden = false;
  if (document.activeElement !== searchField) searchField.value = name === "/search" ? params.get("q") ?? "" : "";
  for (const link of menu.querySelectorAll("a")) {
    const isCurrent = link.getAttribute("href") === (IN_LIBRARY.has(name) ? "#/library" : `#${name}`);
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  // On a phone it may be wider than the window.
  const current = /** @type {HTMLElement | null} */ (menu.querySelector("[aria-current]"));
  if (current) menu.scrollLeft = current.offsetLeft - (menu.clientWidth - current.offsetWidth) / 2;
  if (account.firstChild) return;
  const profile = h("a", { href: "#/profiles", class: "profile" });
  completeMenu(profile);
  account.replaceChildren(profile, h("button", {
    class: "plain",
    onclick: async () => {
      leaveScreen(false);
      closeDocked();
      // Images that are still to come would be refused: their grants end with the session.
      for (const image of screenHost.querySelectorAll("img")) for (const source of ["srcset", "src"]) image.removeAttribute(source);
      screenHost.replaceChildren();
      await api.signOut();
      message = null;
      location.hash = "#/";
      showScreen();
    },
  }, TEXT.signOut));
}

/** The picture of the user; recordings are in the menu where the user can record, or has some. */
async function completeMenu(profile) {
  const [{ enabled, recordings }, { user }] = await Promise.all([api.getRecordings(), api.getCurrentUser()]).catch(() => [{ recordings: [] }, {}]);
  if (!user) return;
  profile.setAttribute("aria-label", TEXT.changeUser(user.username));
  profile.title = user.username;
  profile.replaceChildren(avatar(user.username, user.member.picture));
  /** @type {HTMLElement} */ (menu.querySelector("[href='#/recordings']")).hidden = !(enabled && user.role === "admin") && recordings.length === 0;
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
  if (name === "ArrowDown" && document.activeElement === searchField && screen.search) return focus(findFirst(screenHost));
  if (name.startsWith("Arrow")) return moveFocus(name);
  if (name === "Back") {
    if (parseHash().name === "/") return false; // On a television, this key then leaves the page.
    history.back();
    return true;
  }
  if (name === "/" || name === "ColorF0Red") {
    if (searchForm.hidden || isPlayerShown) return false;
    return focus(searchField);
  }
  if (name === "Enter" && document.activeElement instanceof HTMLSelectElement) {
    document.activeElement.showPicker?.();
    return true;
  }
  if (name === "Space" && document.activeElement?.matches("a")) {
    document.activeElement.click();
    return true;
  }
  return false;
}

/** The field in the header searches everything, while one types. */
const searchField = h("input", { type: "search", "aria-label": TEXT.searchEverything, placeholder: TEXT.search, maxlength: 100, autocomplete: "off", oninput: () => searchFor(searchField.value.trim()) });
searchForm.append(icon("search"), searchField);
searchForm.addEventListener("submit", (event) => {
  event.preventDefault();
  if (screen.search) focus(findFirst(screenHost));
  else searchFor(searchField.value.trim());
});

function searchFor(words) {
  if (parseHash().name !== "/search") {
    location.hash = searchLink(words);
    return;
  }
  history.replaceState(history.state, "", searchLink(words));
  screen.search?.(words);
}

const skipLink = document.querySelector(".skip");
skipLink.textContent = TEXT.skipToContent;
skipLink.addEventListener("click", (event) => {
  event.preventDefault(); // The fragment is the address of a screen.
  document.getElementById("view").focus();
});
menu.setAttribute("aria-label", TEXT.mainMenu);
for (const [href, label] of [["#/", TEXT.home], ["#/library", TEXT.library], ["#/guide", TEXT.guide], ["#/recordings", TEXT.recordings], ["#/settings", TEXT.settings]]) {
  menu.append(h("a", { href, hidden: href === "#/recordings" }, label));
}
window.addEventListener("hashchange", showScreen);
// Another user has another picture, and other lists.
window.addEventListener("user-changed", () => {
  account.replaceChildren();
  places.clear();
});
window.addEventListener("user-edited", () => account.firstChild && completeMenu(account.firstChild));
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
// Afterwards, because the files of the shell would delay the first screen.
showScreen().finally(installShell);
