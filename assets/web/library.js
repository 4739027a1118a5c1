// The library by kind: films, series, music, audiobooks and home videos as a wall of artwork, and folders; what a person took part in, and the
// albums of an artist.

import * as api from "./api.js";
import { CatalogueList } from "./catalogue-list.js";
import { h, icon } from "./dom.js";
import { listenToEvents } from "./events.js";
import { showFolders } from "./folders.js";
import { KINDS, LAYOUTS, letterOf } from "./library-kinds.js";
import { libraryLink } from "./links.js";
import { makeChannelButton, ruleItem } from "./make-channel.js";
import { TEXT, errorText } from "./strings.js";
import { WindowedList } from "./windowed-list.js";

/** From this many entries on, letters to jump to are offered. */
const LETTERS_FROM = 40;
const LETTERS = ["#", ..."ABCDEFGHIJKLMNOPQRSTUVWXYZ"];

/** Changes of the library are shown this long after the last one, ms. */
const RELOAD_DELAY_MS = 1500;

/** Entries of each kind when they were last counted, and the kind that was last shown. */
let counts = {};
let lastKind = null;

export async function showLibrary(stage, params, place) {
  if (params.get("person")) return new Wall(stage, "person", params).open();
  if (params.get("artist")) return new Wall(stage, "music", params).open();
  const path = params.get("path");
  await countKinds();
  const kind = path ? "folders" : params.get("kind") ?? lastKind ?? Object.keys(KINDS).find((name) => counts[name] > 0) ?? "folders";
  if (kind !== "folders" && KINDS[kind]) {
    lastKind = kind;
    return new Wall(stage, kind, params).open();
  }
  const tabs = createTabs("folders");
  const screen = await showFolders(stage, path, place, tabs);
  showCurrentTab(tabs);
  return screen;
}

/** Counts the entries of each kind. One that cannot be counted stays as it was, and has a tab if it was never counted. */
async function countKinds() {
  const names = Object.keys(KINDS).filter((name) => name !== "person");
  const answers = await Promise.allSettled(names.map((name) => KINDS[name].load({ limit: 1 })));
  const [first] = answers;
  if (first.status === "rejected" && answers.every(({ status }) => status === "rejected")) throw first.reason;
  counts = Object.fromEntries(names.map((name, n) => {
    const answer = answers[n];
    return [name, answer.status === "fulfilled" ? answer.value.total : counts[name] ?? 1];
  }));
}

/** Links to the kinds that the library has, and to its folders. */
const createTabs = (current) => h("nav", { class: "tabs kinds", "aria-label": TEXT.library },
  ...[...Object.keys(KINDS).filter((name) => counts[name] > 0 || name === current && name !== "person"), "folders"].map((name) =>
    h("a", { href: libraryLink(name), "aria-current": name === current ? "page" : null }, TEXT.kindNames[name])));

/** Tabs scroll sideways on a phone. */
function showCurrentTab(tabs) {
  const current = tabs && tabs.querySelector("[aria-current]");
  if (current) tabs.scrollLeft = current.offsetLeft - (tabs.clientWidth - current.offsetWidth) / 2;
}

/** A wall of tiles of one kind. */
class Wall {
  constructor(stage, kind, params) {
    this.stage = stage;
    this.kind = kind;
    this.person = params.get("person");
    this.artist = params.get("artist");
    this.name = this.person ?? this.artist;
    this.options = Object.fromEntries(["sort", "genre", "watched"].map((name) => [name, params.get(name) ?? ""]));
    this.rules = KINDS[kind];
    this.abort = new AbortController();
    this.missing = []; // Stand for entries that are not loaded yet.
    this.view = new Map(); // The entries that were shown last, by id: the same object for the same entry.
    this.wall = new WindowedList((entry) => this.createEntry(entry), LAYOUTS[this.rules.shape], `entries tiles ${this.rules.shape}s`);
    this.count = h("p", { class: "muted count", role: "status" });
    this.letters = h("nav", { class: "letters", "aria-label": TEXT.letters, hidden: true }, ...LETTERS.map((letter) =>
      h("button", { type: "button", onclick: () => this.jumpTo(letter) }, letter)));
  }

  async open() {
    const title = this.name ?? TEXT.kindNames[this.kind];
    document.title = `${title} – Hearthcast`;
    this.tabs = this.name ? "" : createTabs(this.kind);
    const pickers = h("div", { class: "pickers" });
    this.channelSlot = h("span", { class: "channel-slot" });
    this.offerChannel();
    const genres = this.rules.hasGenres && !this.artist ? api.getGenres(this.rules.itemKinds) : Promise.resolve({ genres: [] });
    await Promise.all([this.openList(), genres.then(({ genres }) => this.artist || pickers.append(...this.createPickers(genres)), () => {})]);
    this.stage.replaceChildren(this.tabs,
      this.name ? h("div", { class: "heading" },
        h("a", { class: "back", href: libraryLink(this.artist && "artist"), "aria-label": TEXT.backTo(this.artist ? TEXT.kindNames.artist : TEXT.library) }, icon("back")), h("h1", {}, title)) : h("h1", { class: "visually-hidden" }, title),
      h("div", { class: "toolbar" }, this.count, h("div", { class: "toolbar-end" }, pickers, this.channelSlot)),
      h("div", { class: "with-letters" }, this.wall.element, this.letters));
    this.render();
    showCurrentTab(this.tabs);
    this.wall.element.querySelector("a")?.setAttribute("data-first", "");
    this.listen();
    return { leave: () => this.close() };
  }

  /** Opens the list of the chosen order and filters. */
  openList() {
    const { sort, genre, watched } = this.options;
    const query = { limit: 200, ...(sort && { sort }), ...(genre && { genre }), ...(watched && { watched }), ...(this.person && { person: this.person }), ...(this.artist && { artist: this.artist }) };
    const abort = new AbortController();
    this.listAbort?.abort();
    this.listAbort = abort;
    this.abort.signal.addEventListener("abort", () => abort.abort());
    const load = (cursor) => this.rules.load({ ...query, ...(cursor && { cursor }) }, abort.signal);
    const isOnServer = this.rules.isFilteredHere ? {} : query;
    this.list = new CatalogueList(JSON.stringify([this.kind, isOnServer]), load, () => this.list?.signal === abort.signal && this.render(), abort.signal);
    return this.list.open();
  }

  render() {
    if (!this.wall.element.isConnected) return;
    const { list, rules } = this;
    const entries = rules.arrange ? this.reuse(rules.arrange(list.entries, this.options)) : list.entries;
    const missing = rules.arrange ? 0 : Math.max(0, list.total - entries.length);
    this.entries = entries;
    this.wall.setItems(missing ? [...entries, ...this.placeholders(missing)] : entries);
    const total = rules.arrange ? entries.length : list.total;
    const isFiltered = this.options.genre || this.options.watched;
    this.count.textContent = total > 0 ? TEXT.counts[this.kind](total)
      : isFiltered ? TEXT.nothingMatches : list.isScanning ? TEXT.scanning : TEXT.nothingOfKind;
    this.letters.hidden = total < LETTERS_FROM || !["", "title"].includes(this.options.sort);
  }

  /** Entries that are equal to those shown before are the same objects, so that their elements stay. */
  reuse(entries) {
    const view = new Map(entries.map((entry) => {
      const old = this.view.get(entry.id);
      return [entry.id, old && JSON.stringify(old) === JSON.stringify(entry) ? old : entry];
    }));
    this.view = view;
    return [...view.values()];
  }

  /** Entries that are not loaded yet. */
  placeholders(count) {
    while (this.missing.length < count) this.missing.push({ isMissing: true });
    return this.missing.slice(0, count);
  }

  createEntry(entry) {
    return h("li", {}, entry.isMissing ? h("div", { class: `tile ${this.rules.shape} skeleton` }, h("div", { class: `art ${this.rules.shape}` })) : this.rules.tile(entry));
  }

  /** Offers a channel of what is shown: the kind with its filters, or what a person took part in. */
  offerChannel() {
    const { genre, watched } = this.options;
    const name = this.person ?? (genre || TEXT.kindNames[this.kind]);
    const getItems = ({ id }) => [this.person ? ruleItem("person", this.person) : ruleItem("itemKind", this.rules.itemKinds, {
      and: [genre && { kind: "genre", value: genre }, watched === "unwatched" && { kind: "unwatched", userId: id }].filter(Boolean) })];
    const canFollow = !this.artist && !["artist", "audiobook"].includes(this.kind) && ["", "unwatched"].includes(watched);
    this.channelSlot.replaceChildren(...(canFollow ? [makeChannelButton({ name, getItems, order: this.kind === "series" ? "shuffleInOrder" : "shuffle", isIcon: true })] : []));
  }

  createPickers(genres) {
    const { sorts, hasWatched } = this.rules;
    return [
      genres.length > 1 && this.createPicker("genre", TEXT.genre, [["", TEXT.allGenres], ...genres.map(({ name }) => [name, name])]),
      hasWatched && this.createPicker("watched", TEXT.watchedState, Object.entries(TEXT.watchedFilters)),
      sorts && this.createPicker("sort", TEXT.sortBy, sorts.map((name, n) => [n === 0 ? "" : name, TEXT.sorts[name]])),
    ].filter(Boolean);
  }

  createPicker(name, label, choices) {
    const select = h("select", { "aria-label": label, "data-key": `pick-${name}`, onchange: () => {
      this.options[name] = select.value;
      const chosen = Object.fromEntries(Object.entries(this.options).filter(([, value]) => value));
      history.replaceState(history.state, "", libraryLink(this.kind, chosen));
      this.offerChannel();
      this.openList().catch((error) => { this.count.textContent = errorText(error); });
      if (this.list.entries.length > 0) this.render();
      else this.count.textContent = TEXT.loading;
      window.scrollTo(0, 0);
    } }, ...choices.map(([value, text]) => h("option", { value, selected: value === this.options[name] }, text)));
    return select;
  }

  /** Scrolls to the first entry of a letter, or of the next one that has any. */
  async jumpTo(letter) {
    const isAtOrAfter = (entry) => letter === "#" || letterOf(entry) >= letter;
    await this.list.find((entry) => isAtOrAfter(entry));
    const index = this.entries.findIndex(isAtOrAfter);
    this.wall.scrollTo(index < 0 ? this.entries.length - 1 : index, 16);
  }

  listen() {
    let timer = null;
    listenToEvents((name, data) => {
      if (name === "library.changed") {
        clearTimeout(timer);
        timer = setTimeout(() => this.reload(), RELOAD_DELAY_MS);
      }
      const id = name === "progress.deleted" ? data.mediaId : data.progress?.mediaId;
      const entry = id && this.list.entries.find((entry) => entry.id === id);
      if (entry && this.kind === "audiobook") {
        this.list.replace({ ...entry, progress: data.progress ?? null, watched: data.progress?.completed ?? false });
      } else if (entry) {
        api.getItem(id).then(({ item }) => this.abort.signal.aborted || this.list.replace(item), () => {});
      }
    }, this.abort.signal);
    this.abort.signal.addEventListener("abort", () => clearTimeout(timer));
  }

  async reload() {
    this.list.load().catch(() => {});
    if (this.name) return;
    await countKinds();
    if (this.abort.signal.aborted) return;
    const tabs = createTabs(this.kind);
    if (tabs.textContent !== this.tabs.textContent) this.tabs.replaceWith(this.tabs = tabs);
  }

  close() {
    this.abort.abort();
    this.wall.close();
  }
}
