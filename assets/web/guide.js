// The programme guide (EPG): a grid, or on phones a list of what is on now and next; with a filter and a choice of the time.

import * as api from "./api.js";
import { h } from "./dom.js";
import { hasFavourites } from "./account-preferences.js";
import { categoriesOfAll, fold, isListed } from "./guide-filter.js";
import { GuideGrid } from "./guide-grid.js";
import { GuideList } from "./guide-list.js";
import { GuideToolbar } from "./guide-toolbar.js";
import { RecordingState } from "./recording-state.js";
import { TEXT } from "./strings.js";

const HOUR = 3_600_000;
const DAYS = 7;
const PAST_MS = 2 * HOUR;

/** Recordings of other devices are shown after this time, ms. */
const REFRESH_MS = 30_000;

/** Programmes that a search for words finds at most. */
const MAX_FOUND = 50;


export async function showGuide(stage) {
  document.title = `${TEXT.guide} – Hearthcast`;
  const [{ channels }, { user }] = await Promise.all([api.getChannels({}), api.getCurrentUser()]);
  const isAdmin = user.role === "admin";
  if (!channels.length) {
    stage.replaceChildren(h("div", { class: "card" }, h("h1", {}, TEXT.noChannels),
      isAdmin && h("a", { class: "button primary", href: "#/settings?tab=channels&channel=new", "data-first": true }, TEXT.newChannel)));
    return {};
  }
  const guide = new Guide(stage, channels, isAdmin);
  return { leave: () => guide.close(), handleKey: (name) => guide.view.handleKey(name) };
}

class Guide {
  constructor(stage, channels, isAdmin) {
    this.channels = channels;
    this.abort = new AbortController();
    this.from = Math.floor((Date.now() - PAST_MS) / (HOUR / 2)) * (HOUR / 2);
    this.to = this.from + DAYS * 24 * HOUR;
    /** @type {import("./guide-filter.js").Filter} */
    this.filter = { words: "", category: "", onlyFavourites: false, found: new Set() };
    this.recordings = new RecordingState();
    this.details = { recordings: this.recordings, isAdmin, onRecording: (redraw) => this.view.onRecordings(redraw), onFavourite: () => this.onFavourite() };
    this.toolbar = new GuideToolbar({
      from: this.from, to: this.to, categories: categoriesOfAll(channels),
      onInstant: (instant) => this.view.jumpTo(instant), onNow: () => this.view.scrollToNow(), onFilter: (change) => this.setFilter(change),
    });
    this.toolbar.showFavourites(hasFavourites(channels));
    this.host = h("div", { class: "guide-view" });
    this.element = h("div", { class: "guide" }, h("div", { class: "heading" }, h("h1", {}, TEXT.guide), this.toolbar.element), this.host);
    stage.replaceChildren(this.element);
    const narrow = matchMedia("(max-width: 40rem) and (orientation: portrait)");
    narrow.addEventListener("change", () => this.createView(narrow.matches), { signal: this.abort.signal });
    this.createView(narrow.matches);
    this.loadRecordings();
    this.timer = setInterval(() => this.loadRecordings(), REFRESH_MS);
  }

  createView(isList) {
    this.view?.close();
    this.element.classList.toggle("as-list", isList);
    const View = isList ? GuideList : GuideGrid;
    this.view = new View(this.host, {
      channels: this.listed(), from: this.from, to: this.to, filter: this.filter, details: this.details, onMove: (instant) => this.toolbar.showInstant(instant),
    });
  }

  listed() {
    return this.channels.filter((channel) => isListed(channel, this.filter));
  }

  async setFilter(change) {
    const words = "words" in change ? fold(change.words) : this.filter.words;
    this.filter = { ...this.filter, ...change, words, found: words === this.filter.words ? this.filter.found : new Set() };
    this.view.setChannels(this.listed(), this.filter);
    if (!words || words === this.searched) return;
    this.searched = words;
    const { guide } = await api.search(words, MAX_FOUND, this.abort.signal).catch(() => ({ guide: [] }));
    if (this.abort.signal.aborted || this.filter.words !== words) return;
    this.filter = { ...this.filter, found: new Set(guide.map(({ channelId }) => channelId)) };
    this.view.setChannels(this.listed(), this.filter);
  }

  onFavourite() {
    this.toolbar.showFavourites(hasFavourites(this.channels));
    if (this.filter.onlyFavourites) this.view.setChannels(this.listed(), this.filter);
  }

  async loadRecordings() {
    const wasEnabled = this.recordings.isEnabled;
    await this.recordings.load(this.abort.signal);
    if (!this.abort.signal.aborted) this.view.onRecordings(wasEnabled !== this.recordings.isEnabled);
  }

  close() {
    clearInterval(this.timer);
    this.abort.abort();
    this.view.close();
  }
}
