// Picks folders and files of the library.

import * as api from "./api.js";
import { h, icon } from "./dom.js";
import { nameOf } from "./links.js";
import { TEXT, errorText } from "./strings.js";

/** A list of one folder at a time; `onPick(entry)` is called with what was chosen. With `onlyFolders`, files are left out. */
export function mediaPicker(onPick, { onlyFolders = false } = {}) {
  const list = h("ul", { class: "tree" });
  const open = async (path) => {
    const page = await api.listFolder(path);
    const hadFocus = list.contains(document.activeElement);
    const entries = page.entries.filter(({ kind }) => !onlyFolders || kind === "folder");
    list.replaceChildren(
      ...(path ? [h("li", {}, h("button", { type: "button", class: "plain", onclick: () => open(page.parent) }, icon("back"), TEXT.backTo(page.parent ? nameOf(page.parent) : TEXT.library)))] : []),
      ...entries.map((entry) => h("li", {},
        h("button", { type: "button", onclick: () => onPick(entry) }, `+ ${entry.name}`),
        entry.kind === "folder" && h("button", { type: "button", class: "plain", onclick: () => open(entry.path), "aria-label": TEXT.openNamed(entry.name) }, TEXT.open))));
    if (hadFocus) list.querySelector("button")?.focus();
  };
  open(null).catch((error) => list.replaceChildren(h("li", { class: "notice" }, errorText(error))));
  return list;
}
