// The guide on a phone: each channel with what is on at a time and what follows, and a sheet with more of it.

import { resolvePath } from "./api.js";
import { openDialog } from "./dialog.js";
import { h, icon } from "./dom.js";
import { formatTime } from "./format.js";
import { hueOf, isDimmed } from "./guide-filter.js";
import { watchLink } from "./links.js";
import { isOnAir, programmeDetails } from "./programme-details.js";
import { Programmes } from "./programmes.js";
import { recordingMark } from "./recording-state.js";
import { TEXT } from "./strings.js";
import { progressBar } from "./tiles.js";
import { WindowedList } from "./windowed-list.js";

const HOUR = 3_600_000;

/** Programmes of the sheet: those of this time, and how many at most. */
const SHEET_MS = 12 * HOUR;
const MAX_SHEET = 12;

/** Rows, rem; `television.css` has the same. @type {import("./windowed-list.js").Layout} */
const LAYOUT = { column: 18, gap: 0.5, row: 5.75 };

export class GuideList {
  constructor(host, { channels, from, filter, details, onMove }) {
    this.channels = channels;
    this.from = from;
    this.filter = filter;
    this.details = details;
    this.onMove = onMove;
    this.instant = null;
    this.rows = new WeakMap(); // The channel of each row.
    this.list = new WindowedList((channel) => this.createRow(channel), LAYOUT, "entries guide-list");
    this.emptyNote = h("p", { class: "muted", role: "status", hidden: true }, TEXT.nothingInGuide);
    host.replaceChildren(this.emptyNote, this.list.element);
    this.loadProgrammes();
    this.list.setItems(channels);
    this.onMove(Date.now());
    this.tickTimer = setInterval(() => this.fillRows(), 30_000);
  }

  loadProgrammes() {
    this.programmes?.close();
    this.indexes = new Map(this.channels.map(({ id }, n) => [id, n]));
    this.programmes = new Programmes(this.channels, this.from, () => this.fillRows());
  }

  setChannels(channels, filter) {
    Object.assign(this, { channels, filter });
    this.loadProgrammes();
    this.emptyNote.hidden = channels.length > 0;
    this.list.setItems(channels);
    this.fillRows();
  }

  jumpTo(instant) {
    this.instant = instant;
    this.onMove(instant);
    this.fillRows();
  }

  scrollToNow() {
    this.instant = null;
    this.onMove(Date.now());
    this.fillRows();
  }

  createRow(channel) {
    // Only the content of the link and the button changes, so that they keep the focus and a press that has begun.
    const row = h("li", {}, h("a", { class: "now-watch", href: watchLink(channel.id) }),
      h("button", { type: "button", class: "plain now-more", "aria-label": TEXT.moreOf(channel.name), onclick: () => this.openSheet(channel) }, icon("ahead")));
    this.rows.set(row, channel);
    this.fillRow(row, channel);
    return row;
  }

  fillRows() {
    for (const row of this.list.element.children) this.fillRow(row, this.rows.get(row));
  }

  /** What is on at the chosen time, and the next programme; undefined while they are loaded. */
  programmesOf(channel) {
    const at = this.instant ?? Date.now();
    const index = this.indexes.get(channel.id);
    if (index === undefined) return [];
    const entry = this.programmes.entryAt(index, at);
    return [entry, entry && this.programmes.entryAt(index, entry.endMs)];
  }

  fillRow(row, channel) {
    const [entry, next] = this.programmesOf(channel);
    const key = JSON.stringify([entry?.id, next?.id, entry && isOnAir(entry) && Math.floor((Date.now() - entry.startMs) / 30_000), this.markOf(channel, entry), this.filter.words, this.filter.category]);
    if (row.dataset.shown === key) return;
    row.dataset.shown = key;
    const { number, name, logoUrl } = channel;
    const hue = entry ? hueOf(entry) : null;
    row.className = `now-row${hue === null ? "" : " tinted"}${entry && isDimmed(channel, entry, this.filter) ? " dimmed" : ""}`;
    if (hue !== null) row.style.setProperty("--hue", String(hue));
    const mark = this.markOf(channel, entry);
    row.firstChild.replaceChildren(
      logoUrl?.startsWith("/") ? h("img", { src: resolvePath(logoUrl), alt: "", loading: "lazy", width: 40, height: 40 }) : icon("tv"),
      h("span", { class: "now-text" },
        h("span", { class: "muted now-channel" }, `${number} ${name}`),
        h("span", { class: "title" }, entry?.title ?? TEXT.loading, mark && recordingMark(mark)),
        entry && isOnAir(entry) ? h("span", { class: "now-progress" }, progressBar(((Date.now() - entry.startMs) / (entry.endMs - entry.startMs)) * 100))
          : h("span", { class: "muted" }, entry ? `${formatTime(entry.startMs)}–${formatTime(entry.endMs)}` : "\u00a0"),
        h("span", { class: "muted now-next" }, next ? TEXT.nextAt(formatTime(next.startMs), next.title) : "\u00a0")));
  }

  markOf(channel, entry) {
    return entry ? this.details.recordings.markOf(channel.id, entry) : null;
  }

  /** The chosen programme with its details, and what follows it. */
  async openSheet(channel) {
    const at = this.instant ?? Date.now();
    const { programmes } = this;
    const index = this.indexes.get(channel.id);
    if (index === undefined) return;
    await programmes.whenLoaded(index, at);
    if (programmes !== this.programmes) return this.openSheet(channel); // Another list was chosen meanwhile.
    const details = h("div", { class: "sheet-details" });
    const list = h("ol", { class: "sheet-list" });
    const show = (entry) => {
      this.redrawSheet = () => show(entry);
      details.replaceChildren(programmeDetails(channel, entry, this.details));
      for (const button of list.children) button.firstChild.setAttribute("aria-pressed", String(button.dataset.id === entry.id));
    };
    const entries = programmes.groupedBetween(index, at, at + SHEET_MS).slice(0, MAX_SHEET);
    list.replaceChildren(...entries.map((entry) => h("li", { "data-id": entry.id }, h("button", { type: "button", class: "plain", onclick: () => {
      show(entry);
      details.scrollIntoView({ block: "nearest" });
    } }, h("span", { class: "muted" }, formatTime(entry.startMs)), h("span", { class: "title" }, entry.title)))));
    openDialog(`${channel.number} ${channel.name}`, { className: "sheet", onClose: () => { this.redrawSheet = null; } },
      h("div", { class: "dialog-body" }, details, entries.length > 1 && h("h3", {}, TEXT.onThisChannel), list));
    if (entries.length > 0) show(entries[0]);
    else details.replaceChildren(h("p", { class: "muted" }, TEXT.nothingScheduled));
  }

  onRecordings(redrawDetails) {
    if (redrawDetails) this.redrawSheet?.();
    this.fillRows();
  }

  handleKey() {
    return false;
  }

  close() {
    clearInterval(this.tickTimer);
    this.programmes.close();
    this.list.close();
  }
}
