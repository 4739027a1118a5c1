// The toolbar of the guide: day, time, now; words, category and favourites.

import { h, iconButton } from "./dom.js";
import { formatDay, formatTime } from "./format.js";
import { TEXT } from "./strings.js";

const HALF_HOUR = 1_800_000;

/** The filter follows the last key after this time, ms. */
const DELAY_MS = 200;

const option = (value, text) => h("option", { value: String(value) }, text);

/** The local midnight before an instant, `offset` days later. */
const midnight = (instant, offset = 0) => {
  const day = new Date(instant);
  day.setHours(0, 0, 0, 0);
  day.setDate(day.getDate() + offset);
  return day.getTime();
};

/** The days of a guide as pairs of midnight and name. */
export function daysBetween(from, to, now = Date.now()) {
  const days = [];
  for (let n = 0; midnight(from, n) < to; n += 1) days.push(midnight(from, n));
  const names = new Map([[midnight(now), TEXT.today], [midnight(now, 1), TEXT.tomorrow]]);
  return days.map((day) => [day, names.get(day) ?? formatDay(day)]);
}

export class GuideToolbar {
  /**
   * @param {object} options
   * @param {number} options.from  the first instant of the guide, ms
   * @param {number} options.to
   * @param {string[]} options.categories
   * @param {(instant: number) => void} options.onInstant  called with the chosen time
   * @param {() => void} options.onNow
   * @param {(change: object) => void} options.onFilter  called with what changed of the filter
   */
  constructor({ from, to, categories, onInstant, onNow, onFilter }) {
    this.from = from;
    this.to = to;
    this.onInstant = onInstant;
    this.day = h("select", { class: "day", "aria-label": TEXT.guideDay, "data-key": "guide-day", onchange: () => this.choose() }, ...daysBetween(from, to).map(([day, name]) => option(day, name)));
    this.time = h("select", { class: "time", "aria-label": TEXT.guideTime, "data-key": "guide-time", onchange: () => this.choose() },
      ...Array.from({ length: 24 }, (_, hour) => option(hour, formatTime(new Date(2026, 0, 15, hour)))));
    let timer = null;
    const words = h("input", { type: "search", class: "guide-words", "aria-label": TEXT.filterGuide, placeholder: TEXT.filterGuide, maxlength: 100, autocomplete: "off", oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => onFilter({ words: words.value }), DELAY_MS);
    } });
    const category = h("select", { "aria-label": TEXT.category, "data-key": "guide-category", onchange: () => onFilter({ category: category.value }) },
      option("", TEXT.allCategories), ...categories.map((name) => option(name, name)));
    this.favourites = iconButton("star", TEXT.onlyFavourites, () => {
      const isPressed = this.favourites.getAttribute("aria-pressed") !== "true";
      this.favourites.setAttribute("aria-pressed", String(isPressed));
      onFilter({ onlyFavourites: isPressed });
    }, { class: "round small toggle", "aria-pressed": "false", "data-key": "guide-favourites" });
    this.element = h("div", { class: "guide-tools" },
      h("div", { class: "pickers moment" },
        iconButton("back", TEXT.previousDay, () => this.shift(-1), { class: "round small" }), this.day,
        iconButton("ahead", TEXT.nextDay, () => this.shift(1), { class: "round small" }), this.time,
        h("button", { type: "button", class: "now-button", onclick: onNow }, TEXT.now)),
      h("div", { class: "pickers" }, words, categories.length > 1 && category, this.favourites));
  }

  /** The same time on another day. */
  shift(days) {
    const index = this.day.selectedIndex + days;
    if (index < 0 || index >= this.day.options.length) return;
    this.day.selectedIndex = index;
    this.choose();
  }

  choose() {
    const instant = new Date(Number(this.day.value));
    instant.setHours(Number(this.time.value));
    this.onInstant(Math.min(Math.max(instant.getTime(), this.from), this.to - 1));
  }

  /** Shows the time that is in view. */
  showInstant(instant) {
    const shown = new Date(instant + HALF_HOUR); // The hour at or soon after the left edge.
    const [day, hour] = [String(midnight(shown)), String(shown.getHours())];
    if (this.day.value !== day) this.day.value = day;
    if (this.time.value !== hour) this.time.value = hour;
  }

  /** Offers the filter by favourites where there are any. */
  showFavourites(hasAny) {
    this.favourites.hidden = !hasAny && this.favourites.getAttribute("aria-pressed") !== "true";
  }
}
