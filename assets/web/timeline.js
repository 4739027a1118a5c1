// The line one moves along: a slider with marks where chapters begin.

import { h } from "./dom.js";
import { TEXT, clock } from "./strings.js";

/** A slider over `duration` seconds. `onseek(position)` is called when a place was chosen, not on the way there. */
export function timeline(onseek) {
  const slider = h("input", { type: "range", min: 0, max: 1, step: "any", value: 0, "aria-label": TEXT.position, "data-key": "timeline" });
  const at = h("span", { class: "time" }, "0:00");
  const left = h("span", { class: "time" }, "");
  const marks = h("div", { class: "marks", "aria-hidden": "true" });
  const bar = h("div", { class: "line-bar" }, marks, slider);
  let duration = 0;
  let held = false;
  const show = (position) => {
    const share = duration > 0 ? Math.min(1, position / duration) : 0;
    bar.style.setProperty("--share", `${share * 100}%`);
    at.textContent = clock(position);
    left.textContent = duration > 0 ? `-${clock(duration - position)}` : "";
    slider.setAttribute("aria-valuetext", `${clock(position)} of ${clock(duration)}`);
  };
  slider.addEventListener("input", () => {
    held = true;
    show(Number(slider.value));
  });
  slider.addEventListener("change", () => {
    held = false;
    onseek(Number(slider.value));
  });
  // By key: ten seconds a press, more while it is held; it goes there once the pressing ends.
  let presses = 0;
  let pause = null;
  slider.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    presses = event.repeat ? presses + 1 : 0;
    held = true;
    const step = (presses > 10 ? 60 : 10) * (event.key === "ArrowLeft" ? -1 : 1);
    slider.value = String(Number(slider.value) + step);
    show(Number(slider.value));
    clearTimeout(pause);
    pause = setTimeout(() => {
      held = false;
      onseek(Number(slider.value));
    }, 350);
  });
  return {
    element: h("div", { class: "timeline" }, at, bar, left),
    slider,
    /** Marks where chapters begin. */
    mark(seconds, length) {
      duration = length;
      slider.max = String(Math.max(1, length));
      marks.replaceChildren(...seconds.filter((second) => second > 0 && second < length)
        .map((second) => h("span", { style: { left: `${(second / length) * 100}%` } })));
    },
    /** Shows where one is. */
    update(position, length) {
      if (held) return;
      if (length > 0 && length !== duration) {
        duration = length;
        slider.max = String(length);
      }
      slider.value = String(position);
      show(position);
    },
  };
}
