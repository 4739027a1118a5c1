// Folders of the library, loaded page by page, and search by name.

import * as api from "./api.js";
import { h, icon } from "./dom.js";
import { bookLink, fileLink, libraryLink, nameOf, playLink, stem } from "./links.js";
import { TEXT, formatSize } from "./strings.js";

/** Most folders that a search opens. */
const MAX_FOLDERS = 400;
const MAX_RESULTS = 200;

/** Shows a folder, or the roots. */
export async function showLibrary(stage, params) {
  const path = params.get("path");
  const page = await api.listFolder(path);
  const title = path ? nameOf(path) : TEXT.library;
  document.title = `${title} – Hearthcast`;
  const list = h("ul", { class: "entries" });
  const status = h("p", { class: "muted", role: "status" });
  const audioCount = page.entries.filter(({ mediaKind }) => mediaKind === "audio").length;
  const searchField = h("input", { type: "search", "aria-label": TEXT.searchHere, placeholder: TEXT.search, maxlength: 100 });
  stage.replaceChildren(
    h("div", { class: "heading" },
      path && h("a", { class: "back", href: libraryLink(page.parent), "aria-label": TEXT.backTo(page.parent ? nameOf(page.parent) : TEXT.library) }, icon("back")),
      h("h1", {}, title),
      h("form", { class: "search", role: "search", onsubmit: (event) => event.preventDefault() }, searchField)),
    path && audioCount > 1 ? h("p", {}, h("a", { class: "button", href: bookLink(path) }, icon("book"), TEXT.playAsAudiobook)) : "",
    status, list);
  const showFolder = () => {
    list.replaceChildren();
    stage.querySelector(".more")?.remove();
    status.textContent = "";
    appendPage(stage, list, path, page);
    if (list.children.length === 0) status.textContent = path ? TEXT.emptyFolder : TEXT.noRoots;
  };
  showFolder();
  list.querySelector("a")?.setAttribute("data-first", "");

  let searchAbort = null;
  let searchDelay = null;
  searchField.addEventListener("input", () => {
    clearTimeout(searchDelay);
    searchAbort?.abort();
    const query = searchField.value.trim().toLowerCase();
    if (!query) {
      showFolder();
      return;
    }
    status.textContent = TEXT.searching;
    searchDelay = setTimeout(() => {
      searchAbort = new AbortController();
      stage.querySelector(".more")?.remove();
      search({ path, query, list, status, signal: searchAbort.signal }).catch(() => {});
    }, 200);
  });
  return {
    leave() {
      clearTimeout(searchDelay);
      searchAbort?.abort();
    },
    handleKey(name) {
      if (name !== "/" && name !== "ColorF0Red") return false;
      searchField.focus();
      return true;
    },
  };
}

/** Searches a folder and its subfolders by name, breadth first, and shows results as they are found. */
async function search({ path, query, list, status, signal }) {
  list.replaceChildren();
  const pendingFolders = [path];
  let searchedCount = 0;
  let foundCount = 0;
  while (pendingFolders.length && searchedCount < MAX_FOLDERS && foundCount < MAX_RESULTS) {
    const folder = pendingFolders.shift();
    let cursor;
    do {
      const page = await api.listFolder(folder, cursor).catch(() => ({ entries: [] }));
      if (signal.aborted) return;
      for (const entry of page.entries) {
        if (entry.kind === "folder") pendingFolders.push(entry.path);
        if (!entry.name.toLowerCase().includes(query) || foundCount >= MAX_RESULTS) continue;
        foundCount += 1;
        list.append(createEntry(entry));
      }
      cursor = page.nextCursor;
    } while (cursor && foundCount < MAX_RESULTS);
    searchedCount += 1;
  }
  status.textContent = foundCount ? TEXT.found(foundCount) : TEXT.foundNone(query);
}

function appendPage(stage, list, path, page) {
  list.append(...page.entries.map(createEntry));
  if (!page.nextCursor) return;
  // The next page is loaded when its end comes near, by scrolling or by focus.
  const moreButton = h("button", { class: "more", onclick: loadNext }, TEXT.more);
  const observer = new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && loadNext(), { rootMargin: "800px" });
  let isLoading = false;
  async function loadNext() {
    if (isLoading) return;
    isLoading = true;
    const next = await api.listFolder(path, page.nextCursor).catch(() => null);
    if (!moreButton.isConnected) return;
    observer.disconnect();
    if (!next) {
      isLoading = false;
      return;
    }
    const hadFocus = document.activeElement === moreButton;
    const lastItem = list.lastElementChild;
    moreButton.remove();
    appendPage(stage, list, path, next);
    if (hadFocus) lastItem.nextElementSibling?.querySelector("a")?.focus();
  }
  stage.append(moreButton);
  observer.observe(moreButton);
}

function createEntry({ name, path, kind, mediaKind, sizeBytes }) {
  const isFolder = kind === "folder";
  return h("li", { class: "entry-row" },
    h("a", { class: "entry", href: isFolder ? libraryLink(path) : /\.m4b$/i.test(name) ? bookLink(path) : playLink(path) },
      icon(isFolder ? "folder" : mediaKind === "audio" ? "audio" : "video"),
      h("span", { class: "name" }, isFolder ? name : stem(name)),
      !isFolder && sizeBytes !== null && h("span", { class: "muted" }, formatSize(sizeBytes))),
    !isFolder && h("a", { class: "details-link", href: fileLink(path), "aria-label": `${TEXT.details}: ${stem(name)}`, title: TEXT.details }, icon("list")));
}
