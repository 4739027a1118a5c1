// The end of the server's log, updated as it grows.

import * as api from "./api.js";
import { h } from "./dom.js";
import { field, poll } from "./widgets.js";
import { formatExactTime } from "./format.js";
import { TEXT } from "./strings.js";

const POLL_MS = 2000;
const MAX_LINES = 500;
const LEVELS = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];

export async function logTab(container, { signal, showError }) {
  const list = h("ol", { class: "log", tabindex: 0, "aria-label": TEXT.log });
  const levelSelect = h("select", { onchange: () => list.setAttribute("data-level", levelSelect.value) },
    ...LEVELS.slice(0, 3).reverse().map((name) => h("option", { value: name }, TEXT.levels[name])));
  const emptyNote = h("p", { class: "muted" }, TEXT.logEmpty);
  let lastNumber = 0;
  list.setAttribute("data-level", levelSelect.value);
  container.replaceChildren(h("div", { class: "fields" }, field(TEXT.logLevel, levelSelect)), emptyNote, list);
  const loadLines = async () => {
    const { lines } = await api.getLog(lastNumber, signal);
    if (signal.aborted || lines.length === 0) return;
    const isAtEnd = list.scrollTop + list.clientHeight > list.scrollHeight - 40;
    lastNumber = lines.at(-1).number;
    list.append(...lines.slice(-MAX_LINES).map(({ at, level: name, target, text }) => h("li", { class: name.toLowerCase() },
      h("span", { class: "muted" }, formatExactTime(at)), " ", h("strong", {}, name), ` ${text.replace(/=(\d+\.\d)\d+\b/g, "=$1")} `, h("span", { class: "muted" }, target))));
    while (list.children.length > MAX_LINES) list.firstChild.remove();
    emptyNote.hidden = true;
    if (isAtEnd) list.scrollTop = list.scrollHeight;
  };
  await loadLines();
  poll(POLL_MS, signal, showError, loadLines);
}
