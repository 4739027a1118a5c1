// What a pointer does on the video. Touch: a tap shows or hides the controls, a double tap jumps, a swipe to the side seeks, a
// swipe up or down on the right half changes the volume. Mouse: a click pauses, a double click is full screen, the wheel is volume.

/** Two taps within this time are a double tap, ms. */
const DOUBLE_TAP_MS = 300;

/** A finger that moves less has tapped, CSS pixels. */
const TAP_PX = 12;

/** What a swipe over the whole width seeks, and over the whole height changes the volume. */
const SWIPE_SECONDS = 120;
const SWIPE_VOLUME_STEPS = 30;

/**
 * @param {HTMLElement} surface
 * @param {object} actions
 * @param {() => void} actions.tap
 * @param {(direction: -1 | 1) => void} actions.jump
 * @param {(seconds: number, isFinal: boolean) => void} actions.scrub
 * @param {(steps: number) => void} actions.volume
 * @param {() => void} actions.click
 * @param {() => void} actions.fullScreen
 */
export function listenForGestures(surface, actions) {
  let start = null; // Of the finger: { id, x, y, axis, steps }.
  let lastTap = -Infinity;
  let tapTimer = null;

  surface.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch") return;
    start = start ? null : { id: event.pointerId, x: event.clientX, y: event.clientY, axis: null, steps: 0 }; // Two fingers are no gesture.
  });
  surface.addEventListener("pointermove", (event) => {
    if (event.pointerId !== start?.id) return;
    const [dx, dy] = [event.clientX - start.x, event.clientY - start.y];
    if (!start.axis && Math.max(Math.abs(dx), Math.abs(dy)) > 2 * TAP_PX) start.axis = Math.abs(dx) > Math.abs(dy) ? "x" : "y";
    const { width, height, left } = surface.getBoundingClientRect();
    if (start.axis === "x") actions.scrub((dx / width) * SWIPE_SECONDS, false);
    else if (start.axis === "y" && start.x - left > width / 2) {
      const steps = Math.round((-dy / height) * SWIPE_VOLUME_STEPS);
      if (steps !== start.steps) actions.volume(steps - start.steps);
      start.steps = steps;
    }
  });
  surface.addEventListener("pointerup", (event) => {
    if (event.pointerId !== start?.id) return;
    const { x, axis } = start;
    start = null;
    const { width, left } = surface.getBoundingClientRect();
    if (axis === "x") actions.scrub(((event.clientX - x) / width) * SWIPE_SECONDS, true);
    else if (!axis) onTap((x - left) / width);
  });
  surface.addEventListener("pointercancel", () => { start = null; });

  function onTap(fraction) {
    const direction = fraction < 0.4 ? -1 : fraction > 0.6 ? 1 : 0;
    const now = performance.now();
    const isSecond = now - lastTap < DOUBLE_TAP_MS;
    lastTap = now;
    clearTimeout(tapTimer);
    if (isSecond && direction !== 0) actions.jump(direction);
    else tapTimer = setTimeout(actions.tap, direction === 0 ? 0 : DOUBLE_TAP_MS);
  }

  surface.addEventListener("click", ({ pointerType }) => pointerType !== "touch" && actions.click());
  surface.addEventListener("dblclick", (event) => /** @type {PointerEvent} */ (event).pointerType !== "touch" && !start && performance.now() - lastTap > 1000 && actions.fullScreen());
  surface.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.deltaY === 0) return;
    event.preventDefault();
    actions.volume(event.deltaY < 0 ? 1 : -1);
  }, { passive: false });
}
