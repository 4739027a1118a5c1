// DOM elements without markup strings: text from the server is never parsed as HTML.

/**
 * Creates an element. `attributes` may contain listeners (`onclick`) and `style`, an object of CSS properties (the page's CSP
 * forbids style attributes). Children are nodes or strings; null, undefined and false are left out.
 */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "onclick" || key === "onsubmit") element.addEventListener(key.slice(2), withBusyState(value));
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [property, propertyValue] of Object.entries(value)) element.style.setProperty(property, propertyValue);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Sets `aria-busy` on the pressed control while the handler's promise is pending, and ignores presses meanwhile. */
const withBusyState = (work) => (event) => {
  const control = event.submitter ?? event.currentTarget;
  if (control.ariaBusy) {
    event.preventDefault();
    return;
  }
  const pending = work(event);
  if (typeof pending?.then !== "function") return;
  control.ariaBusy = "true";
  const clearBusy = () => { control.ariaBusy = null; };
  pending.then(clearBusy, clearBusy);
};

/** A button with an icon; its label is read aloud and shown as tooltip. */
export const iconButton = (name, label, onclick, attributes = {}) =>
  h("button", { type: "button", class: "round", "aria-label": label, title: label, onclick, ...attributes }, icon(name));

/** Creates an SVG element. */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children.filter((child) => child !== ""));
  return element;
}

/** Icons that were created, to be cloned: a wall has hundreds. */
const iconTemplates = new Map();

/** An icon of a few strokes in the colour of the surrounding text. */
export function icon(name) {
  if (!iconTemplates.has(name)) iconTemplates.set(name, svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: ICONS[name] })));
  return iconTemplates.get(name).cloneNode(true);
}

const ICONS = {
  folder: "M3 7a2 2 0 0 1 2-2h4l2 2h8a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2z",
  video: "M4 5h16v14H4zM10 9l5 3-5 3z",
  audio: "M9 18V6l10-2v12M9 18a2.5 2.5 0 1 1-5 0a2.5 2.5 0 0 1 5 0zM19 16a2.5 2.5 0 1 1-5 0a2.5 2.5 0 0 1 5 0z",
  book: "M4 5.5A2.5 2.5 0 0 1 6.500 3H20v15H6.500A2.500 2.500 0 0 0 4 20.500zM4 20.500A2.500 2.500 0 0 0 6.500 21H20v-3",
  tv: "M3 7h18v12H3zM8 3l4 4 4-4M8 22h8",
  back: "M15 5l-7 7 7 7",
  play: "M7 4.500v15l13-7.500z",
  pause: "M8 5v14M16 5v14",
  rewind: "M11 6l-6 6 6 6M19 6l-6 6 6 6",
  forward: "M13 6l6 6-6 6M5 6l6 6-6 6",
  previous: "M18 5v14l-10-7zM6 5v14",
  next: "M6 5v14l10-7zM18 5v14",
  full: "M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5",
  list: "M8 6h12M8 12h12M8 18h12M4 6h.01M4 12h.01M4 18h.01",
  chapters: "M4 6h10M4 12h10M4 18h10M18 5v14M18 5l-2 2M18 19l-2-2",
  volume: "M4 9.500v5h3.500L12 18.500v-13L7.500 9.500zM15.500 9a4.500 4.500 0 0 1 0 6M18 6.500a8 8 0 0 1 0 11",
  quiet: "M4 9.500v5h3.500L12 18.500v-13L7.500 9.500zM15.500 9a4.500 4.500 0 0 1 0 6",
  muted: "M4 9.500v5h3.500L12 18.500v-13L7.500 9.500zM16 9.500l5 5M21 9.500l-5 5",
  subtitles: "M4 5h16v12H10l-4 3.500V17H4zM8 10h3M14 10h2M8 13.500h8",
  settings: "M4 7h9M17 7h3M15 5v4M4 12h3M11 12h9M9 10v4M4 17h11M19 17h1M17 15v4",
  info: "M12 3.500a8.500 8.500 0 1 1 0 17a8.500 8.500 0 0 1 0-17M12 11v5M12 8h.01",
  keyboard: "M3 6.500h18v11H3zM7 10h.01M10.500 10h.01M14 10h.01M17 10h.01M8 14h8",
  pip: "M3 5h18v14H3zM12.500 12h6v4.500h-6z",
  airplay: "M7 17H4V5h16v12h-3M12 14l5 6H7z",
  close: "M6 6l12 12M18 6L6 18",
  guide: "M4 5h16v14H4zM4 10h16M10 10v9",
  undo: "M8 5L4 9l4 4M4 9h10a5 5 0 0 1 0 10h-4",
  start: "M5 5v14M19 6l-9 6 9 6z",
  ahead: "M9 5l7 7-7 7",
  check: "M5 12.500l4.500 4.500L19 7.500",
  search: "M10.500 4a6.500 6.500 0 1 1 0 13a6.500 6.500 0 0 1 0-13M15.500 15.500L20.500 20.500",
  star: "M12 3.500l2.600 5.400 5.900.8-4.300 4.100 1 5.900-5.200-2.800-5.200 2.800 1-5.900-4.300-4.100 5.900-.8z",
  plus: "M12 5v14M5 12h14",
  up: "M5 15l7-7 7 7",
  down: "M5 9l7 7 7-7",
};

/** The hue for an item without artwork, derived from its name. */
export function tint(name) {
  let sum = 7;
  for (const letter of name) sum = (sum * 31 + letter.codePointAt(0)) % 3600;
  return { "--hue": String(sum % 360) };
}
