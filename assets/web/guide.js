// The programme guide (EPG): channels down, hours across. Only what is visible is in the DOM, however large the guide is.

import * as api from "./api.js";
import { h, iconButton } from "./dom.js";
import { focus } from "./keys.js";
import { watchLink } from "./links.js";
import { Programmes } from "./programmes.js";
import { getActiveRecordings, recordButton, recordingKey } from "./recordings.js";
import { formatDay, formatLength, formatTime } from "./format.js";
import { TEXT } from "./strings.js";

const HOUR = 3_600_000;
const HALF_HOUR = HOUR / 2;
const DAYS = 7;
const PAST_MS = 2 * HOUR;

/** Sizes in CSS pixels; style.css repeats the first three. */
const ROW_HEIGHT = 68;
const SIDE_WIDTH = 168;
const HEAD_HEIGHT = 40;
const PX_PER_HOUR = 360;
const RENDER_MARGIN = 300;

/** Cloned for every cell: title, time, and the channel's name for screen readers. */
const CELL_TEMPLATE = h("button", { type: "button", class: "cell" },
  h("span", { class: "title" }), h("span", { class: "muted" }), h("span", { class: "visually-hidden" }));

/** The mark of a programme that is recorded. */
const RECORDING_MARK = h("span", { class: "dot", role: "img", "aria-label": TEXT.recordingMark });

export async function showGuide(stage) {
  document.title = `${TEXT.guide} – Hearthcast`;
  const [{ channels }, { user }] = await Promise.all([api.getChannels({}), api.getCurrentUser()]);
  if (!channels.length) {
    stage.replaceChildren(h("div", { class: "card" }, h("h1", {}, TEXT.noChannels),
      h("a", { class: "button primary", href: "#/settings?tab=channels", "data-first": true }, TEXT.newChannel)));
    return {};
  }
  const grid = new GuideGrid(stage, channels, user.role === "admin");
  return { leave: () => grid.close(), handleKey: (name) => grid.handleKey(name) };
}

class GuideGrid {
  constructor(stage, channels, canRecord) {
    this.channels = channels;
    this.canRecord = canRecord;
    this.from = Math.floor((Date.now() - PAST_MS) / HALF_HOUR) * HALF_HOUR;
    this.to = this.from + DAYS * 24 * HOUR;
    this.selection = { row: 0, instant: Date.now() }; // The selected channel and time.
    this.programmes = new Programmes(channels, this.from, () => this.onProgrammes());
    this.cells = new Map();
    this.channelLinks = new Map();
    this.hourLabels = new Map();
    this.recordings = new Map(); // By `recordingKey`.
    this.abort = new AbortController();
    this.cellContents = new WeakMap(); // The row and entry of each cell.
    this.renderedWindow = ""; // What is rendered, as a key; the same is not rendered again.
    this.canvas = h("div", { class: "grid-space" });
    this.nowLine = h("div", { class: "now-line", "aria-hidden": "true" });
    this.scroller = h("div", { class: "grid", tabindex: -1, onscroll: () => this.onScroll() }, this.canvas);
    this.dayLabel = h("span", { class: "day" });
    this.details = h("section", { class: "details", "aria-live": "polite" });
    this.canvas.style.setProperty("width", `${SIDE_WIDTH + this.xOf(this.to)}px`);
    this.canvas.style.setProperty("height", `${HEAD_HEIGHT + channels.length * ROW_HEIGHT}px`);
    this.channelColumn = h("div", { class: "grid-side" });
    this.hourRow = h("div", { class: "grid-head" });
    this.gridBody = h("div", { class: "grid-body", onfocusin: (event) => this.onCellFocus(event), onclick: (event) => this.onCellClick(event) }, this.nowLine);
    this.canvas.append(this.hourRow, this.channelColumn, this.gridBody);
    stage.replaceChildren(h("div", { class: "guide" },
      h("div", { class: "heading" }, h("h1", {}, TEXT.guide), this.dayLabel,
        h("div", { class: "buttons" },
          iconButton("previous", TEXT.previousDay, () => this.shiftTime(-24 * HOUR)),
          h("button", { type: "button", onclick: () => this.scrollToNow() }, TEXT.now),
          iconButton("next", TEXT.nextDay, () => this.shiftTime(24 * HOUR)))),
      this.scroller, this.details));
    // Sizes are read when they change, never while rendering: each read would force a layout.
    this.viewport = { top: 0, left: 0, width: this.scroller.clientWidth, height: this.scroller.clientHeight };
    this.resizeObserver = new ResizeObserver(() => {
      [this.viewport.width, this.viewport.height] = [this.scroller.clientWidth, this.scroller.clientHeight];
      this.render();
    });
    this.resizeObserver.observe(this.scroller);
    this.tickTimer = setInterval(() => this.tick(), 30_000);
    this.scrollToNow(false);
    this.render(); // Also requests the visible programmes.
    this.tick();
    this.loadRecordings();
  }

  /** Marks the programmes that are recorded; again with every tick, because other devices record too. */
  async loadRecordings() {
    this.recordings = await getActiveRecordings(this.abort.signal).catch(() => this.recordings);
    if (this.abort.signal.aborted) return;
    this.markRecordings();
    if (this.shownDetails && !this.details.contains(document.activeElement)) this.showDetails(...this.shownDetails);
  }

  markRecordings() {
    for (const cell of this.cells.values()) this.markRecording(cell);
  }

  markRecording(cell) {
    const { row, entry } = this.cellContents.get(cell);
    const isRecorded = (entry.parts ?? [entry]).some(({ id }) => this.recordings.has(recordingKey(this.channels[row].id, id)));
    const mark = cell.querySelector(".dot");
    if (isRecorded && !mark) cell.append(RECORDING_MARK.cloneNode());
    else if (!isRecorded) mark?.remove();
  }

  xOf(instant) {
    return ((instant - this.from) / HOUR) * PX_PER_HOUR;
  }

  scrollToNow(moveFocus = true) {
    // Half an hour of the past, less on a phone.
    this.scrollTo(this.viewport.top, this.xOf(Date.now()) - Math.min(PX_PER_HOUR / 2, (this.viewport.width - SIDE_WIDTH) / 4));
    this.selection = { row: this.selection.row, instant: Date.now() };
    if (moveFocus) this.focusSelection();
  }

  /** Goes to the same time on another day. */
  shiftTime(offset) {
    const instant = Math.min(Math.max(this.selection.instant + offset, this.from), this.to - HALF_HOUR);
    this.scrollTo(this.viewport.top, this.viewport.left + this.xOf(this.from + instant - this.selection.instant));
    this.selection.instant = instant;
  }

  /** Scrolls to a position. */
  scrollTo(top, left) {
    const { viewport, scroller } = this;
    top = Math.round(Math.max(0, Math.min(top, HEAD_HEIGHT + this.channels.length * ROW_HEIGHT - viewport.height)));
    left = Math.round(Math.max(0, Math.min(left, SIDE_WIDTH + this.xOf(this.to) - viewport.width)));
    if (top !== viewport.top) scroller.scrollTop = top;
    if (left !== viewport.left) scroller.scrollLeft = left;
    [viewport.top, viewport.left] = [top, left];
    this.scheduleRender();
  }

  onScroll() {
    [this.viewport.top, this.viewport.left] = [this.scroller.scrollTop, this.scroller.scrollLeft];
    this.render();
  }

  /** Called when programmes have been loaded. */
  onProgrammes() {
    this.renderedWindow = "";
    if (this.cells.size === 0) this.render(0);
    this.scheduleRender();
    const entry = this.details.firstChild ? null : this.programmes.entryAt(this.selection.row, this.selection.instant);
    if (entry) this.showDetails(this.selection.row, entry); // The initial selection.
  }

  /** Renders with the next frame: new data first where it is visible, then the margin around it. */
  scheduleRender() {
    this.renderFrame ??= requestAnimationFrame(() => {
      this.renderFrame = null;
      const isStale = this.renderedWindow === "";
      this.render(isStale ? 0 : RENDER_MARGIN);
      if (isStale) this.scheduleRender();
    });
  }

  /** Adds the elements in the viewport and `margin` around it, and removes the others. */
  render(margin = RENDER_MARGIN) {
    const { top, left, width, height } = this.viewport;
    const rows = [Math.max(0, Math.floor(top / ROW_HEIGHT) - 1),
      Math.min(this.channels.length, Math.ceil((top + height - HEAD_HEIGHT) / ROW_HEIGHT) + 1)];
    const toOffset = (x, round) => round(x / PX_PER_HOUR * HOUR / HALF_HOUR) * HALF_HOUR;
    const begin = this.from + toOffset(Math.max(0, left - margin), Math.floor);
    const end = Math.min(this.to, this.from + toOffset(left + width - SIDE_WIDTH + margin, Math.ceil));
    const dayText = formatDay(Math.max(this.from, this.from + ((left + 60) / PX_PER_HOUR) * HOUR));
    if (this.dayLabel.textContent !== dayText) this.dayLabel.textContent = dayText;
    const renderWindow = `${rows} ${begin} ${end}`;
    if (renderWindow === this.renderedWindow) return;
    this.renderedWindow = renderWindow;
    const [cells, sides, hours] = [new Map(), new Map(), new Map()];
    for (let row = rows[0]; row < rows[1]; row += 1) {
      sides.set(row, this.channelLinks.get(row) ?? this.createChannelLink(row));
      for (const entry of this.programmes.groupedBetween(row, begin, end)) {
        const key = `${row} ${entry.id}`;
        cells.set(key, this.cells.get(key) ?? this.createCell(row, entry));
      }
    }
    for (let hour = Math.ceil(begin / HALF_HOUR) * HALF_HOUR; hour < end; hour += HALF_HOUR) {
      hours.set(hour, this.hourLabels.get(hour) ?? h("span", { style: { left: `${this.xOf(hour)}px` } }, formatTime(hour)));
    }
    const focused = document.activeElement;
    replaceChildMap(this.gridBody, this.cells, cells);
    replaceChildMap(this.channelColumn, this.channelLinks, sides);
    replaceChildMap(this.hourRow, this.hourLabels, hours);
    [this.cells, this.channelLinks, this.hourLabels] = [cells, sides, hours];
    if (focused?.isConnected === false) this.scroller.focus({ preventScroll: true });
  }

  /** Moves the line of the current time and marks the programmes on air. */
  tick() {
    const now = Date.now();
    this.nowLine.style.setProperty("left", `${this.xOf(now)}px`);
    for (const cell of this.cells.values()) markAirState(cell, this.cellContents.get(cell).entry, now);
    if (now - (this.recordingsAt ?? now) > 30_000 - 1000) this.loadRecordings();
    this.recordingsAt = now;
  }

  createChannelLink(row) {
    const { id, number, name } = this.channels[row];
    return h("a", { class: "grid-channel", href: watchLink(id), style: { top: `${row * ROW_HEIGHT}px` } },
      h("span", { class: "muted" }, number), h("span", { class: "name" }, name));
  }

  createCell(row, entry) {
    const left = Math.max(0, this.xOf(entry.startMs));
    const width = Math.max(8, Math.min(this.xOf(entry.endMs), this.xOf(this.to)) - left - 4);
    const channel = this.channels[row];
    const cell = CELL_TEMPLATE.cloneNode(true);
    const [title, start, channelName] = cell.children;
    title.textContent = entry.title;
    start.textContent = formatTime(entry.startMs);
    channelName.textContent = channel.name;
    cell.dataset.key = `${channel.id} ${entry.id}`;
    for (const [property, px] of [["left", left], ["top", row * ROW_HEIGHT], ["width", width]]) cell.style.setProperty(property, `${px}px`);
    markAirState(cell, entry, Date.now());
    this.cellContents.set(cell, { row, entry });
    this.markRecording(cell);
    return cell;
  }

  /** Selects the focused cell. */
  onCellFocus({ target }) {
    const { row, entry } = this.cellContents.get(target);
    if (!this.isMovingFocus) this.selection = { row, instant: Math.max(entry.startMs, this.from) };
    // The details follow in the next frame, so that they do not delay the focus.
    cancelAnimationFrame(this.detailsFrame);
    this.detailsFrame = requestAnimationFrame(() => this.showDetails(row, entry));
  }

  onCellClick({ target }) {
    const contents = this.cellContents.get(target.closest(".cell"));
    if (!contents) return;
    const { row, entry } = contents;
    this.selection = { row, instant: Math.max(entry.startMs, this.from) };
    this.showDetails(row, entry);
    if (entry.startMs <= Date.now() && Date.now() < entry.endMs) location.hash = watchLink(this.channels[row].id);
    else focus(this.details.querySelector("a, button")); // Its actions.
  }

  /** Shows the details of the selected programme. */
  showDetails(row, entry) {
    this.shownDetails = [row, entry];
    const channel = this.channels[row];
    const episode = entry.season && entry.episode ? `S${entry.season} E${entry.episode}` : null;
    const isOnAir = entry.startMs <= Date.now() && Date.now() < entry.endMs;
    this.details.replaceChildren(h("div", {},
      h("h2", {}, entry.title),
      h("p", { class: "muted" }, [`${channel.number} ${channel.name}`, `${formatDay(entry.startMs)}, ${formatTime(entry.startMs)}–${formatTime(entry.endMs)}`,
        formatLength((entry.endMs - entry.startMs) / 1000), episode, entry.subtitle].filter(Boolean).join(" · ")),
      entry.parts?.length > 1
        ? h("p", {}, entry.parts.map(({ title, startMs }) => `${formatTime(startMs)} ${title}`).join(" · "))
        : entry.description ? h("p", {}, entry.description) : ""),
    h("div", { class: "actions" },
      isOnAir ? h("a", { class: "button", href: watchLink(channel.id) }, TEXT.watch) : "",
      this.canRecord && !channel.onDemand && entry.endMs > Date.now() && !entry.parts ? this.recordButton(channel.id, entry) : ""));
  }

  recordButton(channelId, entry) {
    const key = recordingKey(channelId, entry.id);
    return recordButton(channelId, entry, this.recordings.get(key) ?? null, (recording) => {
      if (recording) this.recordings.set(key, recording);
      else this.recordings.delete(key);
      this.markRecordings();
    });
  }

  /** Focuses the selected programme, or its channel while the programme is still loading. */
  async focusSelection() {
    const { row, instant } = this.selection;
    if (this.focusAt(row, instant)) return;
    await this.programmes.whenLoaded(row, instant);
    if (this.selection.row === row && this.selection.instant === instant) this.focusAt(row, instant, TEXT.nothingScheduled);
  }

  /**
   * Scrolls a channel and time into view and focuses the programme there; returns whether it is loaded. Only this one cell is
   * laid out here; the rest of the viewport follows with the next frame.
   */
  focusAt(row, instant, placeholder = TEXT.loading) {
    const entry = this.programmes.entryAt(row, instant);
    const { viewport } = this;
    let { top, left } = viewport;
    if (row * ROW_HEIGHT < top) top = row * ROW_HEIGHT;
    if ((row + 1) * ROW_HEIGHT + HEAD_HEIGHT > top + viewport.height) top = (row + 1) * ROW_HEIGHT + HEAD_HEIGHT - viewport.height;
    const begin = this.xOf(entry ? Math.max(entry.startMs, this.from) : instant);
    if (begin < left) left = begin - 40;
    if (begin + 120 > left + viewport.width - SIDE_WIDTH) left = begin - (viewport.width - SIDE_WIDTH) / 2;
    const element = entry
      ? ensureElement(this.cells, `${row} ${entry.id}`, this.gridBody, () => this.createCell(row, entry))
      : ensureElement(this.channelLinks, row, this.channelColumn, () => this.createChannelLink(row));
    this.isMovingFocus = true; // Moving down and up again must return to the same time.
    element.focus({ preventScroll: true });
    this.isMovingFocus = false;
    this.scrollTo(top, left);
    if (entry) this.programmes.prefetchAround(row, instant);
    else this.details.replaceChildren(h("div", {}, h("h2", {}, this.channels[row].name), h("p", { class: "muted" }, placeholder)));
    return entry !== undefined;
  }

  handleKey(name) {
    const isInGrid = this.scroller.contains(document.activeElement);
    const entry = this.programmes.entryAt(this.selection.row, this.selection.instant);
    const lastRow = this.channels.length - 1;
    const page = Math.max(1, Math.floor(this.viewport.height / ROW_HEIGHT) - 1);
    const select = (row, instant = this.selection.instant) => {
      this.selection = { row: Math.min(lastRow, Math.max(0, row)), instant: Math.min(this.to - 1, Math.max(this.from, instant)) };
      this.focusSelection();
      return true;
    };
    if (name === "PageDown" || name === "ChannelDown") return select(this.selection.row + page);
    if (name === "PageUp" || name === "ChannelUp") return select(this.selection.row - page);
    if (name === "Home") {
      this.scrollToNow();
      return true;
    }
    if (!isInGrid) return name === "ArrowDown" && !this.details.contains(document.activeElement) ? select(this.selection.row) : false;
    if (name === "ArrowDown") return this.selection.row < lastRow ? select(this.selection.row + 1) : false;
    if (name === "ArrowUp") return this.selection.row > 0 ? select(this.selection.row - 1) : false;
    if (name === "ArrowRight") return select(this.selection.row, entry ? entry.endMs : this.selection.instant + HALF_HOUR);
    if (name === "ArrowLeft") return select(this.selection.row, entry ? Math.max(this.from, entry.startMs) - 1 : this.selection.instant - HALF_HOUR);
    return false;
  }

  close() {
    clearInterval(this.tickTimer);
    this.abort.abort();
    this.resizeObserver.disconnect();
    for (const frame of [this.renderFrame, this.detailsFrame]) cancelAnimationFrame(frame);
    this.programmes.close();
  }
}

/** Replaces one map of children by another without touching the elements in both. */
function replaceChildMap(parent, before, after) {
  for (const [key, element] of before) if (after.get(key) !== element) element.remove();
  parent.append(...[...after].filter(([key, element]) => before.get(key) !== element).map(([, element]) => element));
}

/** Returns the element for `key`; creates it if it is missing. */
function ensureElement(elements, key, parent, create) {
  if (!elements.has(key)) {
    elements.set(key, create());
    parent.append(elements.get(key));
  }
  return elements.get(key);
}

/** Marks a cell as on air or over. */
function markAirState(cell, { startMs, endMs }, now) {
  cell.classList.toggle("on-air", startMs <= now && now < endMs);
  cell.classList.toggle("past", endMs <= now);
}
