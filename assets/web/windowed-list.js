// A grid of equal rows of which only the visible ones, and some around them, are in the DOM, however long the list is. Each element has
// its place by itself, so that a new one lays out itself only.

import { h } from "./dom.js";
import { focus } from "./keys.js";

/** Rows are in the DOM up to this far outside the window, CSS pixels: those nearer are created at once, the others one in a frame. */
const MARGIN_PX = 650;
const NEAR_PX = 120;

/** From this width on, columns are those of large screens, rem. */
const WIDE_REM = 40;

/**
 * @typedef {object} Layout  Sizes in rem.
 * @property {number} column  smallest width of a column
 * @property {number} [narrowColumn]  and where the list is narrow
 * @property {number} gap
 * @property {number} row  height of a row, or of what is below its artwork
 * @property {number} [ratio]  width by height of the artwork, which fills the column
 */

/** Lines with an icon and a name. @type {Layout} */
const LINES = { column: 19, gap: 0.6, row: 4.5 };

/**
 * @template {Record<string, any>} T
 */
export class WindowedList {
  /** @param {(item: T) => HTMLElement} create creates the element of an item  @param {Layout} layout */
  constructor(create, layout = LINES, className = "entries") {
    this.create = create;
    this.layout = layout;
    /** @type {T[]} */
    this.items = [];
    /** @type {Map<T, HTMLElement>} */
    this.elements = new Map();
    this.range = "";
    this.element = h("ul", { class: className });
    this.onScroll = () => this.render();
    this.frame = null; // Of the next row in the margin.
    this.top = 0; // Of the list in the document, so that scrolling does not have to measure it.
    addEventListener("scroll", this.onScroll, { passive: true });
    this.resizeObserver = new ResizeObserver(() => this.measure());
    this.resizeObserver.observe(this.element);
  }

  /** Replaces the items. Elements of items that stay are kept, and so is the focus. */
  setItems(items) {
    const focused = [...this.elements].find(([, element]) => element.contains(document.activeElement))?.[0];
    this.items = items;
    const indexes = new Map(items.map((item, index) => [item, index]));
    for (const [item, element] of this.elements) {
      if (indexes.has(item)) element.dataset.index = String(indexes.get(item));
      else this.remove(item, element);
    }
    this.placedLayout = "";
    this.measure();
    if (!focused?.id || this.elements.has(focused)) return;
    const replacement = items.find(({ id }) => id === focused.id);
    this.elements.get(replacement)?.querySelector("a")?.focus({ preventScroll: true });
  }

  measure() {
    const { column, narrowColumn = column, gap, row, ratio } = this.layout;
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize) || 16;
    const width = this.element.clientWidth || innerWidth - 2 * rem;
    this.top = this.element.getBoundingClientRect().top + scrollY;
    const smallest = width < WIDE_REM * rem ? narrowColumn : column;
    this.columns = Math.max(1, Math.floor((width + gap * rem) / ((smallest + gap) * rem)));
    const artwork = ratio ? (width - (this.columns - 1) * gap * rem) / this.columns / ratio : 0;
    this.rowHeight = artwork + (row + gap) * rem;
    this.columnWidth = (width + gap * rem) / this.columns;
    const rows = Math.ceil(this.items.length / this.columns);
    for (const [name, value] of [["--columns", this.columns], ["--column", `${this.columnWidth - gap * rem}px`], ["--row", `${artwork + row * rem}px`]]) {
      this.element.style.setProperty(name, String(value));
    }
    this.element.style.setProperty("height", `${Math.max(0, rows * this.rowHeight - gap * rem)}px`);
    const layout = `${this.columnWidth} ${this.rowHeight}`;
    if (layout !== this.placedLayout) this.placeAll();
    this.placedLayout = layout;
    this.range = "";
    this.render();
  }

  /** Puts all elements to their places, and in the order of the list. */
  placeAll() {
    const indexOf = (element) => Number(element.dataset.index);
    const sorted = [...this.elements.values()].sort((a, b) => indexOf(a) - indexOf(b));
    let position = this.element.firstElementChild;
    for (const element of sorted) {
      this.place(element, indexOf(element));
      if (element === position) position = position.nextElementSibling;
      else this.element.insertBefore(element, position);
    }
  }

  place(element, index) {
    const [row, column] = [Math.floor(index / this.columns), index % this.columns];
    element.style.setProperty("left", `${column * this.columnWidth}px`);
    element.style.setProperty("top", `${row * this.rowHeight}px`);
  }

  /** The rows from `margin` pixels above the window to as many below it. */
  rowsWithin(margin) {
    const rows = Math.ceil(this.items.length / this.columns);
    const top = scrollY - this.top;
    const first = Math.max(0, Math.min(rows, Math.floor((top - margin) / this.rowHeight)));
    return [first, Math.max(first, Math.min(rows, Math.ceil((top + innerHeight + margin) / this.rowHeight)))];
  }

  render() {
    this.top = this.element.getBoundingClientRect().top + scrollY;
    const [all, near] = [this.rowsWithin(MARGIN_PX), this.rowsWithin(NEAR_PX)];
    const range = `${all} ${near} ${this.items.length}`;
    if (range === this.range) return;
    this.range = range;
    const shown = new Set(this.items.slice(all[0] * this.columns, all[1] * this.columns));
    for (const [item, element] of this.elements) if (!shown.has(item)) this.remove(item, element);
    for (let row = near[0]; row < near[1]; row += 1) this.createRow(row);
    this.frame ??= requestAnimationFrame(() => this.createMargin());
  }

  remove(item, element) {
    element.remove();
    this.elements.delete(item);
  }

  /** Creates one row of the margin, the nearest first, and the next one with the next frame. */
  createMargin() {
    this.frame = null;
    const [[first, last], [nearFirst, nearLast]] = [this.rowsWithin(MARGIN_PX), this.rowsWithin(NEAR_PX)];
    for (let offset = 0; offset < last - first; offset += 1) {
      const rows = [nearLast + offset, nearFirst - 1 - offset].filter((row) => row >= first && row < last);
      if (!rows.some((row) => this.createRow(row))) continue;
      this.frame = requestAnimationFrame(() => this.createMargin());
      return;
    }
  }

  /** Creates the elements of a row that are missing, in the order of the list. Returns whether there were any. */
  createRow(row) {
    const begin = row * this.columns;
    let hasCreated = false;
    for (let index = begin; index < Math.min(begin + this.columns, this.items.length); index += 1) {
      const item = this.items[index];
      if (this.elements.has(item)) continue;
      const element = this.create(item);
      this.place(element, index);
      element.dataset.index = String(index);
      this.insert(element, index);
      this.elements.set(item, element);
      hasCreated = true;
    }
    return hasCreated;
  }

  /** Inserts an element before the first one of a later item: readers and the tab key follow the order of the list. */
  insert(element, index) {
    let next = null;
    for (let other = this.element.lastElementChild; other && Number(other.getAttribute("data-index")) > index; other = other.previousElementSibling) next = other;
    this.element.insertBefore(element, next);
  }

  /** Scrolls an item into view and focuses its link. */
  focusAt(index) {
    this.scrollTo(index);
    focus(this.elements.get(this.items[index])?.querySelector("a"));
  }

  /** Scrolls the row of an item to the upper edge of the window, below `offset` pixels. */
  scrollTo(index, offset = 0) {
    const top = this.top + Math.floor(index / this.columns) * this.rowHeight;
    window.scrollTo(0, Math.max(0, top - offset));
    this.render();
  }

  close() {
    removeEventListener("scroll", this.onScroll);
    cancelAnimationFrame(this.frame);
    this.resizeObserver.disconnect();
  }
}
