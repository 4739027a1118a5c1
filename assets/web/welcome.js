// Set-up after the account: choose a folder, get a channel.

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
  await showFolders(stage, entries, null);
}

/** Step 2: choose a folder. Roots first, and the folders of a single root. */
async function showFolders(stage, entries, root) {
  const folders = entries.filter(({ kind }) => kind === "folder");
  if (!root && folders.length === 1) {
    const page = await api.listFolder(folders[0].path);
    const subfolders = page.entries.filter(({ kind }) => kind === "folder");
    if (subfolders.length) return showFolders(stage, [folders[0], ...subfolders], folders[0]);
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
  stage.replaceChildren(h("div", { class: "card wide" },
    h("p", { class: "muted" }, TEXT.step(2, 3)),
    h("h1", {}, folders.length ? TEXT.firstChannel : TEXT.library),
    h("p", { class: "muted" }, folders.length ? TEXT.firstChannelWhy : TEXT.noRoots),
    h("div", { class: "choices" }, ...folders.map((folder, n) =>
      h("button", { type: "button", class: "entry", "data-first": n === 0 ? true : null, onclick: createChannel(folder) },
        icon(folder === root ? "tv" : "folder"), h("span", { class: "name" }, folder === root ? TEXT.everything : folder.name)))),
    notice,
    h("a", { class: "button", href: "#/" }, TEXT.skipForNow)));
  stage.querySelector("[data-first]")?.focus();
}

/** Step 3: the channel is on air. */
function showDone(stage, channel) {
  const watchLinkButton = h("a", { class: "button primary", href: watchLink(channel.id), "data-first": true }, icon("play"), TEXT.watch);
  stage.replaceChildren(h("div", { class: "card wide" },
    h("p", { class: "muted" }, TEXT.step(3, 3)),
    h("h1", {}, TEXT.channelOnAir(channel.name)),
    channel.now && h("p", { class: "muted" }, channel.now.title),
    h("div", { class: "actions" }, watchLinkButton, h("a", { class: "button", href: "#/guide" }, TEXT.guide), h("a", { class: "button", href: "#/" }, TEXT.home))));
  watchLinkButton.focus();
}
