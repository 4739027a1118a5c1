// The seek bar: a slider with chapter marks, what is buffered, and the time under the pointer with a preview of it.

import { h } from "./dom.js";
import { formatClock } from "./format.js";
import { seekPreviews } from "./seek-previews.js";
import { TEXT } from "./strings.js";

/**
 * @typedef {object} Times  Seconds on one scale: of the file, or of the wall clock.
 * @property {number} position
 * @property {number} start  where the bar begins
 * @property {number} end  where it ends; equal to `start` when unknown
 * @property {number} [seekableFrom]  what can be reached; the whole bar by default
 * @property {number} [seekableTo]
 */

/**
 * `onSeek(position)` is called when a position is chosen, not while dragging. `format(position)` is the text of a position and
 * `formatEnd(times)` the one at the right.
 */
export function timeline(onSeek, { format = formatClock, formatEnd = ({ position, end }) => `-${formatClock(end - position)}` } = {}) {
  const slider = h("input", { type: "range", min: 0, max: 1, step: "any", value: 0, "aria-label": TEXT.position, "data-key": "timeline" });
  const elapsed = h("span", { class: "time" }, "");
  const remaining = h("span", { class: "time" }, "");
  const marks = h("div", { class: "marks", "aria-hidden": "true" });
  const hint = h("div", { class: "hint", "aria-hidden": "true", hidden: true });
  const hintText = h("div", { class: "hint-text" });
  const previews = seekPreviews();
  hint.append(previews.element, hintText);
  const bar = h("div", { class: "seek-bar" }, marks, slider, hint);
  /** @type {Times} */
  let times = { position: 0, start: 0, end: 0 };
  let chapters = [];
  let isDragging = false;
  const fraction = (position) => (times.end > times.start ? Math.min(1, Math.max(0, (position - times.start) / (times.end - times.start))) : 0);
  const show = (position) => {
    bar.style.setProperty("--progress", `${fraction(position) * 100}%`);
    elapsed.textContent = format(position);
    remaining.textContent = times.end > times.start ? formatEnd({ ...times, position }) : "";
    slider.setAttribute("aria-valuetext", TEXT.ofDuration(format(position), format(times.end)));
  };
  const reachable = (position) => Math.min(Math.max(position, times.seekableFrom ?? times.start), times.seekableTo ?? times.end);
  slider.addEventListener("input", () => {
    isDragging = true;
    show(Number(slider.value));
  });
  slider.addEventListener("change", () => {
    isDragging = false;
    onSeek(reachable(Number(slider.value)));
  });
  /** The preview, the chapter and the time of a position, above it. */
  const showHint = (at) => {
    const { width } = bar.getBoundingClientRect();
    if (!(times.end > times.start) || width === 0) return;
    const chapter = chapters.findLast(({ startSeconds }) => startSeconds <= at);
    hintText.replaceChildren(...(chapter?.title ? [h("span", { class: "hint-title" }, chapter.title)] : []), h("span", {}, format(at)));
    previews.show(at);
    hint.hidden = false;
    const half = Math.min(width, hint.offsetWidth) / 2;
    hint.style.setProperty("left", `${Math.min(width - half, Math.max(half, fraction(at) * width))}px`);
  };
  const hideHint = () => { hint.hidden = true; };
  // Arrow keys: ten seconds a press, more while held down; seeks when the presses end.
  let repeats = 0;
  let seekTimer = null;
  slider.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    repeats = event.repeat ? repeats + 1 : 0;
    isDragging = true;
    const step = (repeats > 10 ? 60 : 10) * (event.key === "ArrowLeft" ? -1 : 1);
    slider.value = String(Number(slider.value) + step);
    show(Number(slider.value));
    showHint(Number(slider.value));
    clearTimeout(seekTimer);
    seekTimer = setTimeout(() => {
      isDragging = false;
      hideHint();
      onSeek(reachable(Number(slider.value)));
    }, 350);
  });
  bar.addEventListener("pointermove", ({ clientX }) => {
    const { left, width } = bar.getBoundingClientRect();
    if (width > 0) showHint(times.start + Math.min(1, Math.max(0, (clientX - left) / width)) * (times.end - times.start));
  });
  bar.addEventListener("pointerleave", hideHint);
  return {
    element: h("div", { class: "timeline" }, elapsed, bar, remaining),
    slider,
    /** Loads the seek previews at an address; null for a film without any. */
    loadPreviews: (address) => previews.load(address),
    /** Marks the starts of chapters. */
    setChapters(all, length) {
      chapters = all;
      if (length > 0) this.update({ position: times.position, start: 0, end: length });
      marks.replaceChildren(...all.filter(({ startSeconds }) => startSeconds > 0 && startSeconds < length)
        .map(({ startSeconds }) => h("span", { style: { left: `${(startSeconds / length) * 100}%` } })));
    },
    /** Shows the current position. @param {Times} next */
    update(next) {
      if (isDragging) return;
      times = next;
      if (Number(slider.min) !== times.start) slider.min = String(times.start);
      const max = String(times.end > times.start ? times.end : times.start + 1);
      if (slider.max !== max) slider.max = max;
      slider.value = String(times.position);
      bar.style.setProperty("--seekable-from", `${fraction(times.seekableFrom ?? times.start) * 100}%`);
      bar.style.setProperty("--seekable-to", `${fraction(times.seekableTo ?? times.end) * 100}%`);
      show(times.position);
    },
  };
}
