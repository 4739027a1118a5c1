// Folders of the library, loaded page by page, and search by name.

import * as api from "./api.js";
import { h, icon } from "./dom.js";
import { bookLink, fileLink, isAudiobook, libraryLink, nameOf, playLink, stem } from "./links.js";
import { formatSize } from "./format.js";
import { TEXT, errorText } from "./strings.js";
import { WindowedList } from "./windowed-list.js";

/** Folders that a search opens before it stops. The user can continue it. */
const MAX_FOLDERS = 400;
/** Results after which a search stops. */
const MAX_RESULTS = 200;

/** Shows a folder, or the roots. `place` is what `getPlace` returned when the screen was left. */
export async function showLibrary(stage, params, place) {
  const path = params.get("path");
  const page = await api.listFolder(path).catch((error) => {
    if (error.code === "NOT_FOUND") throw Object.assign(error, { text: TEXT.missingFolder });
    throw error;
  });
  const title = path ? nameOf(path) : TEXT.library;
  document.title = `${title} – Hearthcast`;
  const list = new WindowedList(createEntry);
  const status = h("p", { class: "muted", role: "status" });
  const footer = h("div", { class: "list-footer" });
  const audioCount = page.entries.filter(({ mediaKind }) => mediaKind === "audio").length;
  const searchField = h("input", { type: "search", "aria-label": TEXT.searchHere, placeholder: TEXT.search, maxlength: 100 });
  stage.replaceChildren(
    h("div", { class: "heading" },
      path && h("a", { class: "back", href: libraryLink(page.parent), "aria-label": TEXT.backTo(page.parent ? nameOf(page.parent) : TEXT.library) }, icon("back")),
      h("h1", {}, title),
      h("form", { class: "search", role: "search", onsubmit: (event) => event.preventDefault() }, searchField)),
    path && audioCount > 1 ? h("p", {}, h("a", { class: "button", href: bookLink(path) }, icon("book"), TEXT.playAsAudiobook)) : "",
    status, list.element, footer);
  let folder = null;
  const showFolder = () => {
    folder?.close();
    folder = new FolderPages({ path, page, list, footer });
    status.textContent = page.entries.length > 0 ? "" : path ? TEXT.emptyFolder : TEXT.noRoots;
  };
  showFolder();
  if (place?.count > 0) await folder.loadUntil(place.count);
  list.element.querySelector("a")?.setAttribute("data-first", "");

  let search = null;
  let searchDelay = null;
  searchField.addEventListener("input", () => {
    clearTimeout(searchDelay);
    search?.abort.abort();
    const query = searchField.value.trim().toLowerCase();
    if (!query) {
      showFolder();
      return;
    }
    status.textContent = TEXT.searching;
    searchDelay = setTimeout(() => {
      folder?.close();
      search = new Search({ path, query, list, status, footer });
      search.run().catch((error) => { status.textContent = errorText(error); });
    }, 200);
  });
  return {
    getPlace: () => ({ count: searchField.value ? 0 : list.items.length }),
    leave() {
      clearTimeout(searchDelay);
      search?.abort.abort();
      folder?.close();
      list.close();
    },
    handleKey(name) {
      if (name !== "/" && name !== "ColorF0Red") return false;
      searchField.focus();
      return true;
    },
  };
}

/** The pages of one folder. The next one is loaded when the end of the list comes near, by scrolling or by focus. */
class FolderPages {
  constructor({ path, page, list, footer }) {
    Object.assign(this, { path, list, footer, isClosed: false, loading: null });
    this.moreButton = h("button", { type: "button", class: "more", onclick: () => this.loadNext() }, TEXT.more);
    this.observer = new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && this.loadNext(), { rootMargin: "800px" });
    list.setItems(page.entries);
    footer.replaceChildren();
    this.setCursor(page.nextCursor);
  }

  setCursor(cursor) {
    this.cursor = cursor;
    this.observer.disconnect();
    if (!cursor) this.moreButton.remove();
    else {
      this.footer.replaceChildren(this.moreButton);
      this.observer.observe(this.moreButton);
    }
  }

  /** Loads the next page; a call while one is loading waits for it. Returns whether there is one. */
  loadNext() {
    this.loading ??= this.loadPage().finally(() => { this.loading = null; });
    return this.loading;
  }

  async loadPage() {
    if (!this.cursor || this.isClosed) return false;
    const page = await api.listFolder(this.path, this.cursor).catch(() => null);
    if (!page || this.isClosed) return false;
    const hadFocus = document.activeElement === this.moreButton;
    const first = this.list.items.length;
    this.list.setItems([...this.list.items, ...page.entries]);
    this.setCursor(page.nextCursor);
    if (hadFocus) this.list.focusAt(first);
    return true;
  }

  /** Loads pages until the list has `count` items. */
  async loadUntil(count) {
    while (this.list.items.length < count && this.cursor && await this.loadNext());
  }

  close() {
    this.isClosed = true;
    this.observer.disconnect();
  }
}

/** Searches a folder and its subfolders by name, breadth first, and shows results as they are found. */
class Search {
  constructor({ path, query, list, status, footer }) {
    Object.assign(this, { query, list, status, footer, abort: new AbortController(), pending: [{ folder: path }], searched: 0, found: [] });
    footer.replaceChildren();
    list.setItems([]);
  }

  /** Searches until all folders are done, or as many folders or results more as one run may have. */
  async run() {
    const [maxFolders, maxResults] = [this.searched + MAX_FOLDERS, this.found.length + MAX_RESULTS];
    while (this.pending.length > 0 && this.searched < maxFolders && this.found.length < maxResults) {
      const { folder, cursor } = this.pending.shift();
      const page = await api.listFolder(folder, cursor).catch(() => ({ entries: [] }));
      if (this.abort.signal.aborted) return;
      for (const entry of page.entries) if (entry.kind === "folder") this.pending.push({ folder: entry.path });
      const matches = page.entries.filter(({ name }) => name.toLowerCase().includes(this.query));
      if (matches.length > 0) this.list.setItems(this.found = [...this.found, ...matches]);
      if (page.nextCursor) this.pending.unshift({ folder, cursor: page.nextCursor });
      else this.searched += 1;
    }
    this.showEnd();
  }

  showEnd() {
    const count = this.found.length;
    const isOver = this.pending.length === 0;
    this.status.textContent = !isOver ? TEXT.foundSoFar(count, this.searched) : count ? TEXT.found(count) : TEXT.foundNone(this.query);
    this.footer.replaceChildren(...(isOver ? [] : [h("button", { type: "button", class: "more", onclick: async () => {
      this.footer.replaceChildren();
      this.status.textContent = TEXT.searching;
      await this.run();
    } }, TEXT.searchOn)]));
  }
}

function createEntry({ name, path, kind, mediaKind, sizeBytes }) {
  const isFolder = kind === "folder";
  return h("li", { class: "entry-row" },
    h("a", { class: "entry", href: isFolder ? libraryLink(path) : isAudiobook(name) ? bookLink(path) : playLink(path) },
      icon(isFolder ? "folder" : mediaKind === "audio" ? "audio" : "video"),
      h("span", { class: "name" }, isFolder ? name : stem(name)),
      !isFolder && sizeBytes !== null && h("span", { class: "muted" }, formatSize(sizeBytes))),
    !isFolder && h("a", { class: "details-link", href: fileLink(path), "aria-label": `${TEXT.details}: ${stem(name)}`, title: TEXT.details }, icon("list")));
}
