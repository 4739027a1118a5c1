// What the settings are made of: tables, forms, and buttons that ask once more.

import { h } from "./dom.js";
import { TEXT } from "./strings.js";

/** A table of things, each with what can be done to it. */
export function table(heads, rows) {
  const sheet = h("div", { class: "sheet" }, h("table", {},
    h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, ...rows.map((cells) => h("tr", {}, ...cells.map((cell) => h("td", {}, cell ?? "")))))));
  // Where it is too wide, the keys must be able to move it.
  if (!sheet.querySelector("button, a, input, select")) sheet.tabIndex = 0;
  return sheet;
}

/**
 * A table that is shown anew every few seconds: rows stay the same elements, and with them what is focused. `cells(item)`
 * gives texts, and elements for what is made once.
 */
export function liveTable(heads, nothing, key, cells) {
  const body = h("tbody", {});
  const sheet = h("div", { class: "sheet" }, h("table", {},
    h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))), body));
  const none = h("p", { class: "quiet" }, nothing);
  let rows = new Map();
  const show = (items) => {
    const now = new Map();
    for (const item of items) {
      const known = rows.get(key(item));
      const parts = cells(item, known !== undefined);
      const row = known ?? h("tr", {}, ...parts.map((part) => h("td", {}, part ?? "")));
      if (known) parts.forEach((part, n) => { if (typeof part === "string" && row.children[n].textContent !== part) row.children[n].textContent = part; });
      now.set(key(item), row);
    }
    for (const [name, row] of rows) if (!now.has(name)) row.remove();
    for (const [name, row] of now) if (!rows.has(name)) body.append(row);
    rows = now;
    sheet.hidden = items.length === 0;
    none.hidden = items.length > 0;
  };
  show([]);
  return { element: h("div", {}, none, sheet), show };
}

/** A button that asks once more before it does something that cannot be taken back. */
export function remover(act, work, label = TEXT.remove, sure = TEXT.sure) {
  const button = h("button", { type: "button", onclick: () => {
    if (button.dataset.sure) return act(work);
    button.dataset.sure = "yes";
    button.textContent = sure;
    setTimeout(() => {
      delete button.dataset.sure;
      button.textContent = label;
    }, 4000);
  } }, label);
  return button;
}

/** A field with its label over it. */
export const field = (label, input) => h("label", { class: "field" }, h("span", {}, label), input);

/** Fields in a row, and what to do with them. */
export function form(act, fields, label, work) {
  const inputs = fields.map(([name, text, attributes]) => field(text, h("input", { name, required: true, ...attributes })));
  return h("form", { class: "fields", onsubmit: (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.target));
    return act(() => work(values));
  } }, ...inputs, h("button", { class: "primary" }, label));
}

/** Names and what stands behind them; what is empty is left out. */
export const facts = (lines) => h("dl", {}, ...lines.filter(([, value]) => value)
  .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));

/** Does `work` now and every `ms` after it has ended, until `signal` says no more. What fails is told to `wrong`. */
export async function every(ms, signal, wrong, work) {
  while (!signal.aborted) {
    try {
      await work();
      wrong(null);
    } catch (error) {
      if (error.name === "AbortError") return;
      wrong(error);
    }
    await new Promise((resolve) => setTimeout(resolve, ms));
  }
}
