// Folders of the library, loaded page by page.

import * as api from "./api.js";
import { h, icon } from "./dom.js";
import { bookLink, fileLink, folderLink, nameOf, openLink, stem } from "./links.js";
import { makeChannelButton, ruleItem } from "./make-channel.js";
import { formatSize } from "./format.js";
import { TEXT } from "./strings.js";
import { WindowedList } from "./windowed-list.js";

/** Shows a folder, or the roots below `tabs`. `place` is what `getPlace` returned when the screen was left. */
export async function showFolders(stage, path, place, tabs) {
  const page = await api.listFolder(path).catch((error) => {
    if (error.code === "NOT_FOUND") throw Object.assign(error, { text: TEXT.missingFolder });
    throw error;
  });
  const title = path ? nameOf(path) : TEXT.folders;
  document.title = `${title} – Hearthcast`;
  const list = new WindowedList(createEntry);
  const footer = h("div", { class: "list-footer" });
  const audioCount = page.entries.filter(({ mediaKind }) => mediaKind === "audio").length;
  stage.replaceChildren(
    tabs ?? "",
    path ? h("div", { class: "heading" },
      h("a", { class: "back", href: folderLink(page.parent), "aria-label": TEXT.backTo(page.parent ? nameOf(page.parent) : TEXT.folders) }, icon("back")),
      h("h1", {}, title)) : h("h1", { class: "visually-hidden" }, title),
    path && page.entries.length > 0 ? h("div", { class: "actions" },
      audioCount > 1 && h("a", { class: "button", href: bookLink(path) }, icon("book"), TEXT.playAsAudiobook),
      makeChannelButton({ name: title, getItems: () => [ruleItem("folder", path)] })) : "",
    page.entries.length > 0 ? "" : h("p", { class: "muted" }, path ? TEXT.emptyFolder : TEXT.noRoots),
    list.element, footer);
  const folder = new FolderPages({ path, page, list, footer });
  if (place?.count > 0) await folder.loadUntil(place.count);
  list.element.querySelector("a")?.setAttribute("data-first", "");
  return {
    getPlace: () => ({ count: list.items.length }),
    leave() {
      folder.close();
      list.close();
    },
  };
}

/** The pages of one folder. The next one is loaded when the end of the list comes near, by scrolling or by focus. */
class FolderPages {
  constructor({ path, page, list, footer }) {
    this.path = path;
    this.list = list;
    this.footer = footer;
    this.isClosed = false;
    /** @type {Promise<boolean> | null} */
    this.loading = null;
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

function createEntry({ name, path, kind, mediaKind, sizeBytes }) {
  const isFolder = kind === "folder";
  return h("li", { class: "entry-row" },
    h("a", { class: "entry", href: isFolder ? folderLink(path) : openLink(path) },
      icon(isFolder ? "folder" : mediaKind === "audio" ? "audio" : "video"),
      h("span", { class: "name" }, isFolder ? name : stem(name)),
      !isFolder && sizeBytes !== null && h("span", { class: "muted" }, formatSize(sizeBytes))),
    !isFolder && h("a", { class: "details-link", href: fileLink(path), "aria-label": `${TEXT.details}: ${stem(name)}`, title: TEXT.details }, icon("list")));
}
