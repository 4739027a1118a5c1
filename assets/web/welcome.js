// Set-up after the account: media folders, if the library is empty, then the first channel.

import * as api from "./api.js";
import { h, icon } from "./dom.js";
import { watchLink } from "./links.js";
import { TEXT, errorText } from "./strings.js";

export async function showWelcome(stage) {
  const { user } = await api.getCurrentUser();
  if (user.role !== "admin") {
    location.replace("#/");
    return;
  }
  const { entries } = await api.listFolder();
  if (entries.length) await showFirstChannel(stage, entries);
  else await showMediaFolders(stage);
}

/** A step of the set-up, with its title. */
const showStep = (stage, number, title, ...content) =>
  stage.replaceChildren(h("div", { class: "card wide" }, h("p", { class: "muted" }, TEXT.step(number, 3)), h("h1", {}, title), ...content));

const skipLink = () => h("a", { class: "button", href: "#/" }, TEXT.skipForNow);

/** Step 2: media folders. Their rows can be removed again. */
async function showMediaFolders(stage) {
  const { folderChooser, folderList } = await import("./media-folders.js");
  const act = async (work) => {
    await work();
    await showMediaFolders(stage);
  };
  const list = await folderList(act);
  const showNext = async () => showFirstChannel(stage, (await api.listFolder()).entries);
  showStep(stage, 2, TEXT.firstFolders,
    h("p", { class: "muted" }, TEXT.foldersWhy),
    ...(list.count > 0 ? [list.element, h("button", { type: "button", class: "primary", onclick: showNext }, TEXT.continueSetUp), h("h2", {}, TEXT.addFolder)] : []),
    folderChooser((folder) => act(() => api.addMediaFolder(folder)), { isPrimary: list.count === 0 }),
    list.count === 0 && skipLink());
}

/** Step 2 or its end: a channel of one folder. Roots first, and the folders of a single root. */
async function showFirstChannel(stage, entries, root = null) {
  const folders = entries.filter(({ kind }) => kind === "folder");
  if (!root && folders.length === 1) {
    const page = await api.listFolder(folders[0].path);
    const subfolders = page.entries.filter(({ kind }) => kind === "folder");
    if (subfolders.length) return showFirstChannel(stage, [folders[0], ...subfolders], folders[0]);
  }
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const createChannel = (folder) => async () => {
    notice.hidden = true;
    try {
      const name = folder === root ? TEXT.everything : folder.name.slice(0, 100);
      const { channel } = await api.addChannel({ name, items: [{ path: folder.path, recursive: true }] });
      showDone(stage, channel);
    } catch (error) {
      notice.textContent = errorText(error);
      notice.hidden = false;
    }
  };
  const createButton = (folder, n) => h("button", { type: "button", class: "entry", "data-first": n === 0 ? true : null, onclick: createChannel(folder) },
    icon(folder === root ? "tv" : "folder"), h("span", { class: "name" }, folder === root ? TEXT.everything : folder.name));
  showStep(stage, 2, TEXT.firstChannel,
    h("p", { class: "muted" }, TEXT.firstChannelWhy),
    h("div", { class: "choices" }, ...folders.map(createButton)),
    notice,
    skipLink(),
    h("button", { type: "button", class: "plain", onclick: () => showMediaFolders(stage) }, TEXT.mediaFolders));
  /** @type {HTMLElement | null} */ (stage.querySelector("[data-first]"))?.focus();
}

/** Step 3: the channel is on air. */
function showDone(stage, channel) {
  const watchLinkButton = h("a", { class: "button primary", href: watchLink(channel.id), "data-first": true }, icon("play"), TEXT.watch);
  showStep(stage, 3, TEXT.channelOnAir(channel.name),
    channel.now && h("p", { class: "muted" }, channel.now.title),
    h("div", { class: "actions" }, watchLinkButton, h("a", { class: "button", href: "#/guide" }, TEXT.guide), h("a", { class: "button", href: "#/" }, TEXT.home)));
  watchLinkButton.focus();
}
