// The keys of the player, as people know them from others; those of a remote control too.

import { findFocusable, focus, moveFocus } from "./keys.js";

/** What the rewind and forward buttons jump, and their keys, seconds. */
export const REWIND_SECONDS = 10;
export const FORWARD_SECONDS = 30;

/**
 * Handles a key; returns whether it did. While a control has the focus by keyboard, the arrows move it; otherwise they seek and
 * change the volume.
 * @param {import("./controls.js").Controls} controls
 */
export function handleControlKey(controls, key) {
  const { element, panels, options, playButtons, volume } = controls;
  const name = key.length === 1 ? key.toLowerCase() : key;
  if (panels.isOpen()) {
    if (name === "Back") return panels.close();
    if (name.startsWith("Arrow")) return moveFocus(name, panels.openElement()) || true;
  }
  const active = element.contains(document.activeElement) ? document.activeElement : null;
  const hasKeyFocus = !controls.isIdle() && active?.matches("button:focus-visible, a:focus-visible, input:focus-visible");
  const action = options.keys?.[name] ?? keyAction(controls, name);
  if (action && !(name === "Space" && hasKeyFocus)) {
    controls.showOverlay();
    action();
    return true;
  }
  if (hasKeyFocus && name.startsWith("Arrow")) {
    controls.showOverlay();
    return moveFocus(name, element) || true;
  }
  const arrowAction = { ArrowLeft: () => controls.jumpBy(-REWIND_SECONDS), ArrowRight: () => controls.jumpBy(FORWARD_SECONDS),
    ArrowUp: () => volume.step(1), ArrowDown: () => volume.step(-1) }[name];
  if (arrowAction) {
    arrowAction();
    return true;
  }
  if (name !== "Enter" || hasKeyFocus) return false;
  controls.showOverlay();
  const focusable = findFocusable(element);
  return focus(focusable.find((button) => playButtons.includes(button)) ?? focusable[0]);
}

/** What a key does on every player. */
function keyAction(controls, name) {
  if (/^[0-9]$/.test(name)) return () => controls.seekToPercent(10 * Number(name));
  const { media, panels, volume } = controls;
  return {
    Space: () => controls.togglePlayback(), k: () => controls.togglePlayback(), MediaPlayPause: () => controls.togglePlayback(),
    MediaPlay: () => controls.play(), MediaPause: () => media?.pause(), MediaStop: () => history.back(),
    MediaRewind: () => controls.jumpBy(-REWIND_SECONDS), MediaFastForward: () => controls.jumpBy(FORWARD_SECONDS),
    j: () => controls.jumpBy(-REWIND_SECONDS), l: () => controls.jumpBy(FORWARD_SECONDS),
    PageUp: () => controls.stepChapter(-1), PageDown: () => controls.stepChapter(1),
    "+": () => volume.step(1), "-": () => volume.step(-1), m: () => volume.toggleMute(),
    f: () => controls.toggleFullScreen(), p: () => controls.togglePictureInPicture(), i: () => panels.toggle("info"), "?": () => panels.toggle("shortcuts"),
  }[name];
}
