// Seek previews: a small image of the film at a time, from sheets that a WebVTT file describes.

import { h } from "./dom.js";

/** A cue: its start, the address of its sheet relative to the file, and the rectangle in it. */
const CUE = /^(?:(\d+):)?(\d+):(\d+\.\d+) --> .*\n(.+)#xywh=(\d+),(\d+),(\d+),(\d+)$/gm;

/**
 * @typedef {object} Preview
 * @property {number} startSeconds
 * @property {string} sheet  address
 * @property {number} x
 * @property {number} y
 * @property {number} width
 * @property {number} height
 */

/** The previews of a WebVTT file at `address`, in order of time. @returns {Preview[]} */
export function parsePreviews(text, address) {
  return [...text.matchAll(CUE)].map(([, hours, minutes, seconds, sheet, ...rectangle]) => {
    const [x, y, width, height] = rectangle.map(Number);
    const startSeconds = Number(hours ?? 0) * 3600 + Number(minutes) * 60 + Number(seconds);
    return { startSeconds, sheet: new URL(sheet, address).href, x, y, width, height };
  });
}

/** An element that shows the preview of a time; empty until `load` has an address. */
export function seekPreviews() {
  const image = h("img", { alt: "", decoding: "async" });
  const element = h("div", { class: "preview", hidden: true }, image);
  /** @type {Preview[]} */
  let previews = [];
  let generation = 0;
  const hide = () => { element.hidden = true; };
  // A sheet that cannot be made leaves the time alone.
  image.addEventListener("error", hide);
  return {
    element,
    /** Loads the WebVTT file; null for a film without previews. */
    async load(address) {
      previews = [];
      hide();
      const own = ++generation;
      if (!address) return;
      const absolute = new URL(address, location.href).href;
      const response = await fetch(absolute).catch(() => null);
      const text = response?.ok ? await response.text() : "";
      if (own === generation) previews = parsePreviews(text, absolute);
    },
    /** Shows the preview of a time, seconds. */
    show(seconds) {
      const preview = previews.findLast(({ startSeconds }) => startSeconds <= seconds);
      if (!preview) return hide();
      const { sheet, x, y, width, height } = preview;
      element.style.setProperty("width", `${width}px`);
      element.style.setProperty("height", `${height}px`);
      image.style.setProperty("transform", `translate(${-x}px, ${-y}px)`);
      if (image.src !== sheet) image.src = sheet;
      element.hidden = false;
    },
  };
}
