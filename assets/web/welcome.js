// After the account: from a folder of the library to a channel on air.

import * as api from "./api.js";
import { h, icon } from "./dom.js";
import { watchLink } from "./links.js";
import { TEXT, explain } from "./strings.js";

export async function welcome(stage) {
  const { user } = await api.me();
  if (user.role !== "admin") {
    location.replace("#/");
    return;
  }
  const { entries } = await api.browse();
  await choose(stage, entries, null);
}

/** Second step: which folder. Roots first; their folders when there is one root only. */
async function choose(stage, entries, root) {
  const folders = entries.filter(({ kind }) => kind === "folder");
  if (!root && folders.length === 1) {
    const page = await api.browse(folders[0].path);
    const below = page.entries.filter(({ kind }) => kind === "folder");
    if (below.length) return choose(stage, [folders[0], ...below], folders[0]);
  }
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const pick = (folder) => async () => {
    notice.hidden = true;
    try {
      const name = folder === root ? "Everything" : folder.name.slice(0, 100);
      const { channel } = await api.addChannel({ name, items: [{ path: folder.path, recursive: true }] });
      done(stage, channel);
    } catch (error) {
      notice.textContent = explain(error);
      notice.hidden = false;
    }
  };
  stage.replaceChildren(h("div", { class: "card wide" },
    h("p", { class: "quiet" }, TEXT.step(2, 3)),
    h("h1", {}, folders.length ? TEXT.chooseFolder : TEXT.library),
    h("p", { class: "quiet" }, folders.length ? TEXT.chooseFolderWhy : TEXT.noRoots),
    h("div", { class: "choices" }, ...folders.map((folder, n) =>
      h("button", { type: "button", class: "entry", "data-first": n === 0 ? true : null, onclick: pick(folder) },
        icon(folder === root ? "tv" : "folder"), h("span", { class: "name" }, folder === root ? "Everything" : folder.name)))),
    notice,
    h("a", { class: "button", href: "#/" }, TEXT.skipThis)));
  stage.querySelector("[data-first]")?.focus();
}

/** Third step: it is on air. */
function done(stage, channel) {
  const watch = h("a", { class: "button primary", href: watchLink(channel.id), "data-first": true }, icon("play"), TEXT.watch);
  stage.replaceChildren(h("div", { class: "card wide" },
    h("p", { class: "quiet" }, TEXT.step(3, 3)),
    h("h1", {}, TEXT.channelMade(channel.name)),
    channel.now && h("p", { class: "quiet" }, channel.now.title),
    h("div", { class: "actions" }, watch, h("a", { class: "button", href: "#/guide" }, TEXT.guide), h("a", { class: "button", href: "#/" }, TEXT.home))));
  watch.focus();
}
