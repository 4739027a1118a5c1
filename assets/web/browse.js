// Folders of the library.

import * as api from "./api.js";
import { h, icon } from "./dom.js";
import { TEXT, size } from "./strings.js";

export const folderLink = (path) => (path ? `#/folder?${new URLSearchParams({ path })}` : "#/");
export const playLink = (path) => `#/play?${new URLSearchParams({ path })}`;

/** Shows one folder, or the roots. */
export async function browse(view, path) {
  const page = await api.browse(path);
  const list = h("ul", { class: "entries" });
  const title = path ? nameOf(path) : TEXT.library;
  document.title = `${title} – Hearthcast`;
  view.replaceChildren(
    h("div", { class: "heading" },
      path && h("a", { class: "back", href: folderLink(page.parent), "aria-label": "Up one folder" }, icon("back")),
      h("h1", {}, title)),
    list);
  append(view, list, path, page);
  if (list.children.length === 0) list.replaceWith(h("p", { class: "quiet" }, path ? TEXT.empty : TEXT.noRoots));
}

function append(view, list, path, page) {
  list.append(...page.entries.map(entry));
  if (!page.nextCursor) return;
  const more = h("button", {
    class: "more",
    onclick: async () => {
      more.disabled = true;
      const next = await api.browse(path, page.nextCursor).catch(() => null);
      if (!next) {
        more.disabled = false;
        return;
      }
      more.remove();
      append(view, list, path, next);
    },
  }, TEXT.more);
  view.append(more);
}

function entry({ name, path, kind, mediaKind, sizeBytes }) {
  const folder = kind === "folder";
  return h("li", {},
    h("a", { class: "entry", href: folder ? folderLink(path) : playLink(path) },
      icon(folder ? "folder" : mediaKind === "audio" ? "audio" : "video"),
      h("span", { class: "name" }, folder ? name : stem(name)),
      !folder && sizeBytes !== null && h("span", { class: "quiet" }, size(sizeBytes))));
}

const nameOf = (path) => path.split("/").filter(Boolean).at(-1) ?? path;

/** A file name as a title. */
export const stem = (name) => name.replace(/\.[A-Za-z0-9]{1,5}$/, "");
