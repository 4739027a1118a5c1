// A grid of equal rows of which only the visible ones, and some around them, are in the DOM, however long the list is.

import { h } from "./dom.js";
import { focus } from "./keys.js";

/** The smallest width of a column, the height of a row and the gap, CSS pixels at 16 px a rem; `--entry-height` in style.css is the same. */
const COLUMN_REM = 19;
const ROW_REM = 4.5;
const GAP_REM = 0.6;

/** Rows in the DOM before and after the visible ones. */
const MARGIN_ROWS = 8;

/**
 * @template T
 */
export class WindowedList {
  /** @param {(item: T) => HTMLElement} create creates the element of an item */
  constructor(create) {
    this.create = create;
    /** @type {T[]} */
    this.items = [];
    /** @type {Map<T, HTMLElement>} */
    this.elements = new Map();
    this.range = "";
    this.element = h("ul", { class: "entries" });
    this.onScroll = () => this.render();
    addEventListener("scroll", this.onScroll, { passive: true });
    this.resizeObserver = new ResizeObserver(() => this.measure());
    this.resizeObserver.observe(this.element);
  }

  /** Replaces the items. Elements of items that stay are kept, and so is the focus. */
  setItems(items) {
    this.items = items;
    this.measure();
  }

  measure() {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize) || 16;
    this.rowHeight = (ROW_REM + GAP_REM) * rem;
    const width = this.element.clientWidth || innerWidth - 2 * rem;
    this.columns = Math.max(1, Math.floor((width + GAP_REM * rem) / ((COLUMN_REM + GAP_REM) * rem)));
    this.element.style.setProperty("--columns", String(this.columns));
    this.range = "";
    this.render();
  }

  render() {
    const rows = Math.ceil(this.items.length / this.columns);
    const top = -this.element.getBoundingClientRect().top;
    const first = Math.max(0, Math.min(rows, Math.floor(top / this.rowHeight)) - MARGIN_ROWS);
    const last = Math.min(rows, Math.ceil((top + innerHeight) / this.rowHeight) + MARGIN_ROWS);
    const range = `${first} ${last} ${this.items.length}`;
    if (range === this.range) return;
    this.range = range;
    const shown = this.items.slice(first * this.columns, Math.max(last, first) * this.columns);
    const elements = new Map(shown.map((item) => [item, this.elements.get(item) ?? this.create(item)]));
    for (const [item, element] of this.elements) if (!elements.has(item)) element.remove();
    let position = this.element.firstElementChild;
    for (const element of elements.values()) {
      if (element === position) position = position.nextElementSibling;
      else this.element.insertBefore(element, position);
    }
    this.elements = elements;
    this.element.style.setProperty("padding-top", `${first * this.rowHeight}px`);
    this.element.style.setProperty("padding-bottom", `${Math.max(0, rows - Math.max(last, first)) * this.rowHeight}px`);
  }

  /** Scrolls an item into view and focuses its link. */
  focusAt(index) {
    this.element.scrollIntoView({ block: "nearest" });
    this.render();
    focus(this.elements.get(this.items[index])?.querySelector("a"));
  }

  close() {
    removeEventListener("scroll", this.onScroll);
    this.resizeObserver.disconnect();
  }
}
