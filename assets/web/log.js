// The end of the program's log, as it grows.

import * as api from "./api.js";
import { h } from "./dom.js";
import { every, field } from "./sheet.js";
import { TEXT } from "./strings.js";

const EVERY_MS = 2000;
const SHOWN = 500;
const LEVELS = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];

export async function logTab(place, { signal, wrong }) {
  const list = h("ol", { class: "log", tabindex: 0, "aria-label": TEXT.log });
  const level = h("select", { onchange: () => list.setAttribute("data-level", level.value) },
    ...LEVELS.slice(0, 3).reverse().map((name) => h("option", { value: name }, TEXT.levels[name])));
  const none = h("p", { class: "quiet" }, TEXT.logEmpty);
  let last = 0;
  list.setAttribute("data-level", level.value);
  place.replaceChildren(h("div", { class: "fields" }, field(TEXT.showFrom, level)), none, list);
  const show = async () => {
    const { lines } = await api.log(last, signal);
    if (signal.aborted || lines.length === 0) return;
    const atEnd = list.scrollTop + list.clientHeight > list.scrollHeight - 40;
    last = lines.at(-1).number;
    list.append(...lines.slice(-SHOWN).map(({ at, level: name, target, text }) => h("li", { class: name.toLowerCase() },
      h("span", { class: "quiet" }, new Date(at).toLocaleTimeString()), " ", h("strong", {}, name), ` ${text.replace(/=(\d+\.\d)\d+\b/g, "=$1")} `, h("span", { class: "quiet" }, target))));
    while (list.children.length > SHOWN) list.firstChild.remove();
    none.hidden = true;
    if (atEnd) list.scrollTop = list.scrollHeight;
  };
  await show();
  every(EVERY_MS, signal, wrong, show);
}
