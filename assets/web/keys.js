// Keyboard and remote control: arrow keys move the focus in their direction.

const FOCUSABLE = "a[href]:not([tabindex='-1']), summary, button:not(:disabled, [tabindex='-1']), input:not(:disabled), select:not(:disabled), textarea:not(:disabled), [tabindex='0']";

/** Key codes that televisions send without a name (Tizen, webOS), with the names other browsers use. */
const KEY_CODES = {
  10009: "Back", 461: "Back", 427: "ChannelUp", 428: "ChannelDown", 33: "PageUp", 34: "PageDown", 412: "MediaRewind",
  413: "MediaStop", 415: "MediaPlay", 417: "MediaFastForward", 19: "MediaPause", 10252: "MediaPlayPause", 10190: "LastChannel",
};

const ALIASES = { Escape: "Back", GoBack: "Back", BrowserBack: "Back", XF86Back: "Back", " ": "Space" };

/** The name of a key, the same for every device. */
export function keyName(event) {
  const code = event.key && event.key !== "Unidentified" ? event.key : KEY_CODES[event.keyCode] ?? "";
  const canonical = KEY_CODES[event.keyCode] === "Back" ? "Back" : code;
  return ALIASES[canonical] ?? canonical;
}

/** Whether the focused element handles the key itself: text fields, lists and sliders do. */
export function handlesKey(element, name) {
  const tag = element?.tagName;
  // One outside of a form is between other things: arrows lead past it, Enter opens it.
  if (tag === "SELECT") return name === "Space" || (element.form !== null && (name === "ArrowUp" || name === "ArrowDown" || name === "Enter"));
  if (tag !== "INPUT" && tag !== "TEXTAREA") return false;
  if (element.type === "range") return name === "ArrowLeft" || name === "ArrowRight";
  if (element.type === "checkbox" || element.type === "radio") return name === "Space";
  return name !== "ArrowUp" && name !== "ArrowDown" && name !== "Back";
}

const isVisible = (element) => {
  const { width, height } = element.getBoundingClientRect();
  return width > 0 && height > 0 && element.checkVisibility?.({ visibilityProperty: true }) !== false;
};

export const findFocusable = (scope) => [...scope.querySelectorAll(FOCUSABLE)].filter(isVisible);

/** Focuses an element and scrolls it into view. */
export function focus(element) {
  if (!element) return false;
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "nearest", inline: "nearest" });
  return true;
}

/** Moves the focus; returns false when nothing lies in that direction. */
export function moveFocus(name, scope = document.body) {
  const current = document.activeElement;
  if (!current || current === document.body || !scope.contains(current) || current.id === "view") return focus(findFirst(scope));
  // A row of tiles is left up or down only.
  const row = name === "ArrowLeft" || name === "ArrowRight" ? current.closest(".cards") : null;
  const candidates = findFocusable(row ?? scope).filter((element) => element !== current);
  const currentRect = current.getBoundingClientRect();
  let nearest = null;
  let shortest = Infinity;
  for (const element of candidates) {
    const length = distance(name, currentRect, element.getBoundingClientRect());
    if (length < shortest) [nearest, shortest] = [element, length];
  }
  return focus(nearest);
}

/** The element to focus first: one with `data-first`, otherwise the first in `main`. */
export const findFirst = (scope) =>
  [...scope.querySelectorAll("[data-first]")].find(isVisible) ?? findFocusable(scope.querySelector("main") ?? scope)[0];

/** The distance between two rectangles in a direction; a sideways offset counts three times. */
function distance(name, from, to) {
  const ahead = {
    ArrowRight: to.left - from.right, ArrowLeft: from.left - to.right,
    ArrowDown: to.top - from.bottom, ArrowUp: from.top - to.bottom,
  }[name];
  if (ahead < -4) return Infinity;
  const across = name === "ArrowLeft" || name === "ArrowRight"
    ? Math.max(0, to.top - from.bottom, from.top - to.bottom) + Math.abs(to.top + to.bottom - from.top - from.bottom) / 20
    : Math.max(0, to.left - from.right, from.left - to.right) + Math.abs(to.left - from.left) / 20;
  return Math.max(0, ahead) + 3 * across;
}
