// The media folders: listed, added from the folders of the server, and removed. For admins, in the settings and in the set-up.

import * as api from "./api.js";
import { h, icon } from "./dom.js";
import { folderLink, nameOf } from "./links.js";
import { TEXT, errorText } from "./strings.js";
import { confirmButton, field } from "./widgets.js";

/** The page's sentence for why a folder cannot be opened or added, by the error's code. @type {Record<string, string>} */
const REFUSALS = { NOT_FOUND: TEXT.noSuchFolder, FORBIDDEN: TEXT.folderUnreadable, VALIDATION_ERROR: TEXT.folderRefused, INVALID_PATH: TEXT.folderRefused };

/** What a folder may contain, by the server's name of the kind. @type {Record<string, string>} */
const KINDS = { films: TEXT.kindNames.film, series: TEXT.kindNames.series, music: TEXT.kindNames.music, audiobooks: TEXT.kindNames.audiobook, homeVideos: TEXT.kindNames.homeVideo };

/** @param {HTMLElement} container @param {import("./settings.js").TabContext} context */
export async function foldersTab(container, { act }) {
  const list = await folderList(act);
  container.replaceChildren(
    h("p", { class: "muted" }, TEXT.foldersWhy),
    list.element,
    h("section", {}, h("h2", {}, TEXT.addFolder), folderChooser(async (folder) => {
      await api.addMediaFolder(folder);
      await act(async () => {}); // Draws the tab again.
    })));
}

/** The media folders as a list, and how many there are. */
export async function folderList(act) {
  const { folders } = await api.getMediaFolders();
  const createEntry = ({ id, path, origin, kind, available }) => h("li", {},
    icon("folder"),
    h("span", { class: "name" }, h("a", { href: folderLink(path) }, path),
      !available && h("span", { class: "notice" }, TEXT.folderUnavailable),
      kind && h("span", { class: "muted" }, KINDS[kind]),
      origin !== "admin" && h("span", { class: "muted" }, origin === "recordings" ? TEXT.recordings : TEXT.folderFixed)),
    origin === "admin" && confirmButton(act, () => api.deleteMediaFolder(id)));
  const element = folders.length ? h("ul", { class: "folder-list" }, ...folders.map(createEntry)) : h("p", {}, TEXT.noFoldersYet);
  return { element, count: folders.length };
}

/** A path to type, and the folders of the server to walk through. `onChoose({ path, kind })` adds one; its error is shown here. */
export function folderChooser(onChoose, { isPrimary = true } = {}) {
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const path = h("input", { name: "path", value: "/", required: true, autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
  const kind = h("select", { name: "kind" }, h("option", { value: "" }, TEXT.automatic), ...Object.entries(KINDS).map(([value, label]) => h("option", { value }, label)));
  const list = h("ul", { class: "tree folders" });
  const attempt = async (work) => {
    notice.hidden = true;
    try {
      await work();
    } catch (error) {
      notice.textContent = REFUSALS[error.code] ?? errorText(error);
      notice.hidden = false;
    }
  };
  const open = (place) => attempt(async () => {
    const page = await api.listServerFolder(place);
    const hadFocus = list.contains(document.activeElement);
    path.value = page.path;
    const entry = (name, target, label) => h("li", {}, h("button", { type: "button", onclick: () => open(target), "aria-label": label }, icon(name), nameOf(target) || "/"));
    list.replaceChildren(
      page.parent ? entry("up", page.parent, TEXT.backTo(nameOf(page.parent) || "/")) : "",
      ...page.folders.map((folder) => entry("folder", folder.path, TEXT.openNamed(folder.name))),
      page.folders.length ? "" : h("li", { class: "muted" }, TEXT.noSubfolders),
      page.truncated ? h("li", { class: "muted" }, TEXT.foldersTruncated) : "");
    if (hadFocus) list.querySelector("button")?.focus();
  });
  open("/");
  return h("form", { class: "chooser", onsubmit: (event) => {
    event.preventDefault();
    return attempt(() => onChoose({ path: path.value, kind: kind.value || null }));
  } },
    h("div", { class: "fields" }, field(TEXT.folderPath, path),
      h("button", { type: "button", onclick: () => open(path.value) }, TEXT.open),
      field(TEXT.folderKind, kind),
      h("button", { class: isPrimary && "primary" }, TEXT.addThisFolder)),
    h("p", { class: "muted" }, TEXT.folderKindWhy), notice, list);
}
