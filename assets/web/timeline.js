// The seek bar: a slider with chapter marks.

import { h } from "./dom.js";
import { TEXT, formatClock } from "./strings.js";

/** A slider over `duration` seconds. `onSeek(position)` is called when a position is chosen, not while dragging. */
export function timeline(onSeek) {
  const slider = h("input", { type: "range", min: 0, max: 1, step: "any", value: 0, "aria-label": TEXT.position, "data-key": "timeline" });
  const elapsed = h("span", { class: "time" }, "0:00");
  const remaining = h("span", { class: "time" }, "");
  const marks = h("div", { class: "marks", "aria-hidden": "true" });
  const bar = h("div", { class: "seek-bar" }, marks, slider);
  let duration = 0;
  let isDragging = false;
  const show = (position) => {
    const fraction = duration > 0 ? Math.min(1, position / duration) : 0;
    bar.style.setProperty("--progress", `${fraction * 100}%`);
    elapsed.textContent = formatClock(position);
    remaining.textContent = duration > 0 ? `-${formatClock(duration - position)}` : "";
    slider.setAttribute("aria-valuetext", `${formatClock(position)} of ${formatClock(duration)}`);
  };
  slider.addEventListener("input", () => {
    isDragging = true;
    show(Number(slider.value));
  });
  slider.addEventListener("change", () => {
    isDragging = false;
    onSeek(Number(slider.value));
  });
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
    clearTimeout(seekTimer);
    seekTimer = setTimeout(() => {
      isDragging = false;
      onSeek(Number(slider.value));
    }, 350);
  });
  return {
    element: h("div", { class: "timeline" }, elapsed, bar, remaining),
    slider,
    /** Marks the starts of chapters. */
    setMarks(seconds, length) {
      duration = length;
      slider.max = String(Math.max(1, length));
      marks.replaceChildren(...seconds.filter((second) => second > 0 && second < length)
        .map((second) => h("span", { style: { left: `${(second / length) * 100}%` } })));
    },
    /** Shows the current position. */
    update(position, length) {
      if (isDragging) return;
      if (length > 0 && length !== duration) {
        duration = length;
        slider.max = String(length);
      }
      slider.value = String(position);
      show(position);
    },
  };
}
