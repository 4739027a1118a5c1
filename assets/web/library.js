// Folders of the library: windowed, so that a folder of thousands costs what is seen of it, and searched by name.

import * as api from "./api.js";
import { h, icon } from "./dom.js";
import { bookLink, fileLink, libraryLink, nameOf, playLink, stem } from "./links.js";
import { TEXT, size } from "./strings.js";

/** Folders a search looks into at most. */
const SEARCHED = 400;
const FOUND = 200;

/** Shows one folder, or the roots. */
export async function library(stage, params) {
  const path = params.get("path");
  const abort = new AbortController();
  const page = await api.browse(path);
  const title = path ? nameOf(path) : TEXT.library;
  document.title = `${title} – Hearthcast`;
  const list = h("ul", { class: "entries" });
  const status = h("p", { class: "quiet", role: "status" });
  const sound = page.entries.filter(({ mediaKind }) => mediaKind === "audio").length;
  const folders = page.entries.some(({ kind }) => kind === "folder");
  const field = h("input", { type: "search", "aria-label": TEXT.searchHere, placeholder: TEXT.search, maxlength: 100 });
  stage.replaceChildren(
    h("div", { class: "heading" },
      path && h("a", { class: "back", href: libraryLink(page.parent), "aria-label": TEXT.up }, icon("back")),
      h("h1", {}, title),
      h("form", { class: "search", role: "search", onsubmit: (event) => event.preventDefault() }, field)),
    path && sound > 1 ? h("p", {}, h("a", { class: "button", href: bookLink(path) }, icon("book"), TEXT.listenFolder)) : "",
    status, list);
  const show = () => {
    list.replaceChildren();
    stage.querySelector(".more")?.remove();
    status.textContent = "";
    append(stage, list, path, page);
    if (list.children.length === 0) status.textContent = path ? TEXT.empty : TEXT.noRoots;
  };
  show();
  list.querySelector("a")?.setAttribute("data-first", "");

  let searching = null;
  let pause = null;
  field.addEventListener("input", () => {
    clearTimeout(pause);
    searching?.abort();
    const wanted = field.value.trim().toLowerCase();
    if (!wanted) {
      show();
      return;
    }
    status.textContent = TEXT.searching(0);
    pause = setTimeout(() => {
      searching = new AbortController();
      stage.querySelector(".more")?.remove();
      search({ path, wanted, list, status, deep: folders, signal: searching.signal }).catch(() => {});
    }, 200);
  });
  return {
    leave() {
      clearTimeout(pause);
      searching?.abort();
      abort.abort();
    },
    key(name) {
      if (name !== "/" && name !== "ColorF0Red") return false;
      field.focus();
      return true;
    },
  };
}

/** Looks for a name in a folder and below, the nearest first; what is found shows at once. */
async function search({ path, wanted, list, status, signal }) {
  list.replaceChildren();
  const open = [path];
  let looked = 0;
  let found = 0;
  while (open.length && looked < SEARCHED && found < FOUND) {
    const folder = open.shift();
    let cursor;
    do {
      const page = await api.browse(folder, cursor).catch(() => ({ entries: [] }));
      if (signal.aborted) return;
      for (const entry of page.entries) {
        if (entry.kind === "folder") open.push(entry.path);
        if (!entry.name.toLowerCase().includes(wanted) || found >= FOUND) continue;
        found += 1;
        list.append(line(entry));
      }
      cursor = page.nextCursor;
    } while (cursor && found < FOUND);
    looked += 1;
    status.textContent = TEXT.searching(looked);
  }
  status.textContent = found ? TEXT.found(found) : TEXT.foundNone;
}

function append(stage, list, path, page) {
  list.append(...page.entries.map(line));
  if (!page.nextCursor) return;
  // The next page is asked for when the end comes near, by scrolling or by focus.
  const more = h("button", { class: "more", onclick: load }, TEXT.more);
  const watcher = new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && load(), { rootMargin: "800px" });
  let asked = false;
  async function load() {
    if (asked) return;
    asked = true;
    const next = await api.browse(path, page.nextCursor).catch(() => null);
    if (!more.isConnected) return;
    watcher.disconnect();
    if (!next) {
      asked = false;
      return;
    }
    const held = document.activeElement === more;
    const last = list.lastElementChild;
    more.remove();
    append(stage, list, path, next);
    if (held) last.nextElementSibling?.querySelector("a")?.focus();
  }
  stage.append(more);
  watcher.observe(more);
}

function line({ name, path, kind, mediaKind, sizeBytes }) {
  const folder = kind === "folder";
  return h("li", { class: "line" },
    h("a", { class: "entry", href: folder ? libraryLink(path) : playLink(path) },
      icon(folder ? "folder" : mediaKind === "audio" ? "audio" : "video"),
      h("span", { class: "name" }, folder ? name : stem(name)),
      !folder && sizeBytes !== null && h("span", { class: "quiet" }, size(sizeBytes))),
    !folder && h("a", { class: "about", href: fileLink(path), "aria-label": `${TEXT.details}: ${stem(name)}`, title: TEXT.details }, icon("list")));
}
