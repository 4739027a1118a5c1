// The page by keyboard and by a television's remote: arrows move what is focused to what lies in that direction.

const FOCUSABLE = "a[href], summary, button:not(:disabled), input:not(:disabled), select:not(:disabled), textarea:not(:disabled), [tabindex='0']";

/** Keys that televisions send by number only (Tizen, webOS), by the name browsers give them elsewhere. */
const CODES = {
  10009: "Back", 461: "Back", 427: "ChannelUp", 428: "ChannelDown", 33: "PageUp", 34: "PageDown", 412: "MediaRewind",
  413: "MediaStop", 415: "MediaPlay", 417: "MediaFastForward", 19: "MediaPause", 10252: "MediaPlayPause", 10190: "LastChannel",
};

const SAME = { Escape: "Back", GoBack: "Back", BrowserBack: "Back", XF86Back: "Back", " ": "Space" };

/** One name for a key, whatever device it came from. */
export function keyName(event) {
  const known = event.key && event.key !== "Unidentified" ? event.key : CODES[event.keyCode] ?? "";
  const named = CODES[event.keyCode] === "Back" ? "Back" : known;
  return SAME[named] ?? named;
}

/** Whether the key means something to what is focused: text is typed, lists and sliders are set. */
export function belongsTo(element, name) {
  const tag = element?.tagName;
  if (tag === "SELECT") return name === "ArrowUp" || name === "ArrowDown" || name === "Space" || name === "Enter";
  if (tag !== "INPUT" && tag !== "TEXTAREA") return false;
  if (element.type === "range") return name === "ArrowLeft" || name === "ArrowRight";
  if (element.type === "checkbox" || element.type === "radio") return name === "Space";
  return name !== "ArrowUp" && name !== "ArrowDown" && name !== "Back";
}

const shown = (element) => {
  const { width, height } = element.getBoundingClientRect();
  return width > 0 && height > 0 && element.checkVisibility?.({ visibilityProperty: true }) !== false;
};

export const focusable = (scope) => [...scope.querySelectorAll(FOCUSABLE)].filter(shown);

/** Puts the focus on an element, and the element on screen. */
export function focus(element) {
  if (!element) return false;
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "nearest", inline: "nearest" });
  return true;
}

/** Moves the focus; false when nothing lies there. */
export function move(name, scope = document.body) {
  const from = document.activeElement;
  const candidates = focusable(scope).filter((element) => element !== from);
  if (!from || from === document.body || !scope.contains(from) || from.id === "view") return focus(first(scope));
  const here = from.getBoundingClientRect();
  let best = null;
  let least = Infinity;
  for (const element of candidates) {
    const far = distance(name, here, element.getBoundingClientRect());
    if (far < least) [best, least] = [element, far];
  }
  return focus(best);
}

/** What is focused first: what asks for it, else the first thing in the main part. */
export const first = (scope) =>
  [...scope.querySelectorAll("[data-first]")].find(shown) ?? focusable(scope.querySelector("main") ?? scope)[0];

/** How far `to` lies from `from` in a direction; what lies straight ahead is nearer than what lies aside. */
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
