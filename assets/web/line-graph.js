// A small graph of the last minutes: up to four lines, whose newest values are also text.

import { h, svg } from "./dom.js";
import { TEXT } from "./strings.js";

/**
 * @typedef {Array<number | null>} Values  oldest first; null where nothing was measured
 *
 * @typedef {object} Graph
 * @property {HTMLElement} element
 * @property {(lines: Values[]) => void} show  the values of each line
 */

const HEIGHT = 60;

/** Fewest steps of a graph: five minutes of the server. */
const MIN_WIDTH = 60;

/** Largest value of the lines; 0 without one. @param {Values[]} lines */
const peakOf = (lines) => Math.max(0, ...lines.flat().map(Number));

/**
 * The path of a line in a box of `width` steps: the newest value is at the right edge. It has a gap where a value is null, and a
 * dot where a value is alone.
 * @param {Values} values  @param {number} width  @param {number} peak
 */
export function linePath(values, width, peak) {
  const start = width - values.length + 1;
  return values.map((value, n) => {
    if (value === null) return "";
    const point = `${start + n} ${HEIGHT - (peak && value / peak) * HEIGHT}`;
    return (values[n - 1] ?? null) === null ? `M${point}h0` : `L${point}`;
  }).join("");
}

/**
 * @param {string} title  @param {string[]} names  one for each line, empty where the title suffices
 * @param {(value: number) => string} format
 * @returns {Graph}
 */
export function lineGraph(title, names, format) {
  const paths = names.map(() => svg("path"));
  const texts = names.map((name) => h("span", { class: name && "line" }));
  const drawing = svg("svg", { preserveAspectRatio: "none", "aria-hidden": "true" }, ...paths);
  const peakText = h("small", { class: "muted" });
  // A remote control scrolls by focus.
  const element = h("figure", { class: "graph", tabindex: 0 }, h("figcaption", {}, h("b", {}, title), peakText), h("p", {}, ...texts),
    drawing);
  const show = (/** @type {Values[]} */ lines) => {
    const peak = peakOf(lines);
    const width = Math.max(MIN_WIDTH, lines[0].length);
    drawing.setAttribute("viewBox", `0 -2 ${width} ${HEIGHT + 4}`);
    peakText.textContent = TEXT.peak(format(peak));
    lines.forEach((values, n) => {
      const newest = values.findLast((value) => value !== null);
      texts[n].textContent = [names[n], newest === undefined ? "–" : format(newest)].filter(Boolean).join(" ");
      paths[n].setAttribute("d", linePath(values, width, peak));
    });
  };
  return { element, show };
}
