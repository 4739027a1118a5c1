// Search over everything: results by kind, the best first. The words are typed in the header.

import * as api from "./api.js";
import { h, icon } from "./dom.js";
import { formatTime } from "./format.js";
import { personLink, watchLink } from "./links.js";
import { makeChannelButton, ruleItem } from "./make-channel.js";
import { TEXT, errorText } from "./strings.js";
import { itemTile, row, seriesTile, tile } from "./tiles.js";

/** Results of each kind. */
const LIMIT = 30;

/** The search follows the last key after this time, ms. */
const DELAY_MS = 180;

/** Groups of items, in the order in which they are shown. */
const ITEM_KINDS = ["film", "episode", "audiobook", "music", "homeVideo", "extra"];

export async function showSearch(stage, params) {
  const status = h("p", { class: "muted", role: "status" });
  const results = h("div", { class: "results" });
  const title = h("h1", {}, TEXT.search);
  const channelSlot = h("div", {});
  stage.replaceChildren(h("div", { class: "heading search-heading" }, h("div", {}, title, status), channelSlot), results);
  let abort = new AbortController();
  const search = async (words, delay) => {
    abort.abort();
    abort = new AbortController();
    const { signal } = abort;
    document.title = `${words || TEXT.search} – Hearthcast`;
    if (!words) {
      results.replaceChildren();
      channelSlot.replaceChildren();
      title.textContent = TEXT.search;
      status.textContent = TEXT.searchHint;
      return;
    }
    if (delay) await new Promise((resolve) => setTimeout(resolve, delay));
    if (signal.aborted) return;
    try {
      const answer = await api.search(words, LIMIT, signal);
      title.textContent = TEXT.resultsFor(words);
      results.replaceChildren(...groupResults(answer));
      const count = ["items", "series", "people", "channels", "guide"].reduce((sum, name) => sum + answer[name].length, 0);
      status.textContent = count > 0 ? TEXT.found(count) : TEXT.foundNone(words);
      const items = channelItems(answer);
      channelSlot.replaceChildren(...(items.length > 0 ? [makeChannelButton({ name: words, getItems: () => items })] : []));
      results.querySelector("a")?.setAttribute("data-first", "");
    } catch (error) {
      if (error.name !== "AbortError") status.textContent = errorText(error);
    }
  };
  await search((params.get("q") ?? "").trim(), 0);
  return { search: (words) => search(words, DELAY_MS), leave: () => abort.abort() };
}

function groupResults({ items, series, people, channels, guide }) {
  const ofKind = (kind) => items.filter((item) => item.kind === kind);
  const itemRow = (kind) => row(kind, TEXT.kindNames[kind], unique(ofKind(kind).map((item) => itemTile(item))));
  return [
    row("film", TEXT.kindNames.film, ofKind("film").map((item) => itemTile(item))),
    row("series", TEXT.kindNames.series, series.map(seriesTile)),
    ...ITEM_KINDS.slice(1).map(itemRow),
    row("people", TEXT.people, people.map(({ name, itemCount }) => h("a", { class: "chip", href: personLink(name) }, h("span", {}, name), h("span", { class: "muted" }, TEXT.titles(itemCount))))),
    row("channels", TEXT.channels, channels.map(({ id, number, name, logoUrl }) => tile({
      href: watchLink(id), kind: "channel", title: name, line: String(number), logo: logoUrl?.startsWith("/") ? api.resolvePath(logoUrl) : null }))),
    guide.length > 0 && h("section", { class: "row", "data-row": "guide" }, h("h2", {}, TEXT.guide),
      h("ul", { class: "result-list" }, ...guide.map((entry) => h("li", {}, h("a", { class: "track", href: entry.isLive ? watchLink(entry.channelId) : "#/guide" },
        icon("tv"), h("span", { class: "title" }, entry.title), h("span", { class: "muted" }, entry.isLive ? TEXT.now : formatTime(entry.start))))))),
  ].filter(Boolean);
}

/** Kinds of items that a channel of what was found has. */
const CHANNEL_KINDS = new Set(["film", "episode", "homeVideo", "music"]);

/** What was found as items of a channel: series and people as rules, other items by their files. */
function channelItems({ items, series, people }) {
  const ids = new Set(series.map(({ id }) => id));
  const files = items.filter(({ kind, seriesId }) => CHANNEL_KINDS.has(kind) && !ids.has(seriesId)).map(({ mediaPath }) => ({ path: mediaPath }));
  const rules = series.map(({ id }) => ruleItem("series", id));
  return files.length + rules.length > 0 ? [...rules, ...files] : people.slice(0, 1).map(({ name }) => ruleItem("person", name));
}

/** Several tracks of an album open the same page. */
function unique(tiles) {
  const seen = new Set();
  return tiles.filter((one) => !seen.has(one.getAttribute("href")) && seen.add(one.getAttribute("href")));
}
