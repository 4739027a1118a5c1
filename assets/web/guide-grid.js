// The grid of the guide: channels down, hours across. Only what is visible is in the DOM, however large the guide is.

import { resolvePath } from "./api.js";
import { h } from "./dom.js";
import { formatTime } from "./format.js";
import { hueOf, isDimmed } from "./guide-filter.js";
import { focus } from "./keys.js";
import { watchLink } from "./links.js";
import { programmeDetails } from "./programme-details.js";
import { Programmes } from "./programmes.js";
import { recordingMark } from "./recording-state.js";
import { TEXT } from "./strings.js";

const HOUR = 3_600_000;
const HALF_HOUR = HOUR / 2;

/** Sizes in CSS pixels; style.css repeats the first three. */
const ROW_HEIGHT = 68;
const SIDE_WIDTH = 168;
const HEAD_HEIGHT = 40;
const PX_PER_HOUR = 480;
const RENDER_MARGIN = 300;

/** Cloned for every cell: title, time, and the channel's name for screen readers. */
const CELL_TEMPLATE = h("button", { type: "button", class: "cell" },
  h("span", { class: "title" }), h("span", { class: "muted" }), h("span", { class: "visually-hidden" }));

/**
 * @typedef {object} GridOptions
 * @property {object[]} channels
 * @property {number} from  the guide's first instant, ms
 * @property {number} to
 * @property {import("./guide-filter.js").Filter} filter
 * @property {object} details  the options of `programmeDetails`
 * @property {(instant: number) => void} onMove  called with the first instant in view
 */
export class GuideGrid {
  /**
   * @param {HTMLElement} host
   * @param {GridOptions} options
   */
  constructor(host, { channels, from, to, filter, details, onMove }) {
    this.channels = channels;
    this.from = from;
    this.to = to;
    this.filter = filter;
    this.onMove = onMove;
    this.detailOptions = details;
    this.selection = { row: 0, instant: Date.now() }; // The selected channel and time.
    this.programmes = new Programmes(channels, from, () => this.onProgrammes());
    this.cells = new Map();
    this.channelLinks = new Map();
    this.hourLabels = new Map();
    this.cellContents = new WeakMap(); // The row and entry of each cell.
    this.renderedWindow = ""; // What is rendered, as a key; the same is not rendered again.
    this.canvas = h("div", { class: "grid-space" });
    this.nowLine = h("div", { class: "now-line", "aria-hidden": "true" });
    this.scroller = h("div", { class: "grid", tabindex: -1, onscroll: () => this.onScroll() }, this.canvas);
    this.emptyNote = h("p", { class: "muted grid-empty", role: "status", hidden: true }, TEXT.nothingInGuide);
    this.details = h("section", { class: "details", "aria-live": "polite", "aria-label": TEXT.details });
    this.canvas.style.setProperty("width", `${SIDE_WIDTH + this.xOf(this.to)}px`);
    this.channelColumn = h("div", { class: "grid-side" });
    this.hourRow = h("div", { class: "grid-head" });
    this.gridBody = h("div", { class: "grid-body", onfocusin: (event) => this.onCellFocus(event), onclick: (event) => this.onCellClick(event) }, this.nowLine);
    this.canvas.append(this.hourRow, this.channelColumn, this.gridBody);
    host.replaceChildren(this.scroller, this.emptyNote, this.details);
    this.setHeight();
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
  }

  setHeight() {
    this.canvas.style.setProperty("height", `${HEAD_HEIGHT + this.channels.length * ROW_HEIGHT}px`);
    this.emptyNote.hidden = this.channels.length > 0;
  }

  /** Shows other channels, and dims the programmes that `filter` does not name. */
  setChannels(channels, filter) {
    this.filter = filter;
    if (channels.length !== this.channels.length || channels.some(({ id }, n) => id !== this.channels[n].id)) {
      this.channels = channels;
      this.programmes.close();
      this.programmes = new Programmes(channels, this.from, () => this.onProgrammes());
      for (const elements of [this.cells, this.channelLinks]) {
        for (const element of elements.values()) element.remove();
        elements.clear();
      }
      this.selection = { ...this.selection, row: 0 };
      this.shownDetails = null;
      this.details.replaceChildren();
      this.setHeight();
      this.scrollTo(0, this.viewport.left);
    }
    for (const cell of this.cells.values()) this.markCell(cell);
    this.renderedWindow = "";
    this.render();
  }

  /** Draws the marks again after something was scheduled or cancelled; the details too unless their button shows it already. */
  onRecordings(redrawDetails) {
    for (const cell of this.cells.values()) this.markCell(cell);
    if (!this.shownDetails || !redrawDetails && this.details.contains(document.activeElement)) return;
    const hadFocus = this.details.contains(document.activeElement);
    this.showDetails(...this.shownDetails);
    if (hadFocus) focus(this.details.querySelector("[data-key=record]") ?? this.details.querySelector("a, button"));
  }

  /** Marks a cell as recorded, and dims it when it does not match the filter. */
  markCell(cell) {
    const { row, entry } = this.cellContents.get(cell);
    const channel = this.channels[row];
    const { recordings } = this.detailOptions;
    const mark = recordings.markOf(channel.id, entry);
    if ((cell.dataset.mark ?? null) !== mark) {
      cell.querySelector(".dot")?.remove();
      if (mark) cell.append(recordingMark(mark));
      cell.classList.toggle("marked", Boolean(mark));
      if (mark) cell.dataset.mark = mark;
      else delete cell.dataset.mark;
    }
    cell.classList.toggle("dimmed", isDimmed(channel, entry, this.filter));
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

  /** Goes to an instant, which is then the first one in view. */
  jumpTo(instant) {
    instant = Math.min(Math.max(instant, this.from), this.to - HALF_HOUR);
    this.scrollTo(this.viewport.top, this.xOf(instant));
    this.selection = { row: this.selection.row, instant };
    this.needsDetails = true;
    this.showSelection();
  }

  /** The first instant in view. */
  visibleInstant() {
    return this.from + (this.viewport.left / PX_PER_HOUR) * HOUR;
  }

  /** Shows the details of the selection once it is loaded. */
  showSelection() {
    const entry = this.needsDetails && this.channels.length > 0 && this.programmes.entryAt(this.selection.row, this.selection.instant);
    if (!entry) return;
    this.needsDetails = false;
    this.showDetails(this.selection.row, entry);
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
    this.needsDetails ||= !this.details.firstChild; // The initial selection.
    this.showSelection();
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
    this.onMove(this.visibleInstant());
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
  }

  createChannelLink(row) {
    const { id, number, name, logoUrl } = this.channels[row];
    return h("a", { class: "grid-channel", href: watchLink(id), style: { top: `${row * ROW_HEIGHT}px` } },
      logoUrl?.startsWith("/") && h("img", { src: resolvePath(logoUrl), alt: "", loading: "lazy", width: 32, height: 32 }),
      h("span", { class: "channel-text" }, h("span", { class: "muted" }, number), h("span", { class: "name" }, name)));
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
    const hue = hueOf(entry);
    if (hue !== null) {
      cell.classList.add("tinted");
      cell.style.setProperty("--hue", String(hue));
    }
    markAirState(cell, entry, Date.now());
    this.cellContents.set(cell, { row, entry });
    this.markCell(cell);
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
    const cell = target.closest(".cell");
    if (!cell) return;
    const { row, entry } = this.cellContents.get(cell);
    this.selection = { row, instant: Math.max(entry.startMs, this.from) };
    this.showDetails(row, entry);
    // Its mark may be older than its end.
    if (cell.matches(".on-air")) location.hash = watchLink(this.channels[row].id);
    else focus(this.details.querySelector("a, button")); // Its actions.
  }

  /** Shows the details of the selected programme. */
  showDetails(row, entry) {
    this.shownDetails = [row, entry];
    this.details.replaceChildren(programmeDetails(this.channels[row], entry, this.detailOptions));
  }

  /** Focuses the selected programme, or its channel while the programme is still loading. */
  async focusSelection() {
    if (this.channels.length === 0) return;
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
    if (this.channels.length === 0) return false;
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
