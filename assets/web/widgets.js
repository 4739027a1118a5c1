// Building blocks of the settings: tables, forms, facts, and buttons that ask for confirmation.

import { h } from "./dom.js";
import { TEXT } from "./strings.js";

/** The head of a table. An empty cell heads nothing. */
const tableHead = (heads) => h("thead", {}, h("tr", {}, ...heads.map((head) => (head ? h("th", { scope: "col" }, head) : h("td", {})))));

/** The cells of a row. On a phone each is a line with its head before it. */
const tableCells = (heads, cells) => cells.map((cell, n) => h("td", { "data-head": heads[n] || null }, cell ?? ""));

/** A table; cells are texts or elements. */
export function table(heads, rows) {
  const wrapper = h("div", { class: "table-scroll" }, h("table", {}, tableHead(heads),
    h("tbody", {}, ...rows.map((cells) => h("tr", {}, ...tableCells(heads, cells))))));
  // A table that is too wide must scroll by keyboard.
  if (!wrapper.querySelector("button, a, input, select")) wrapper.tabIndex = 0;
  return wrapper;
}

/**
 * A table that is refreshed every few seconds. Rows keep their elements, and so the focus. `cells(item, isUpdate)` returns
 * the texts, and on creation also the elements.
 */
export function liveTable(heads, emptyText, key, cells) {
  const body = h("tbody", {});
  const wrapper = h("div", { class: "table-scroll" }, h("table", {}, tableHead(heads), body));
  const emptyNote = h("p", { class: "muted" }, TEXT.loading);
  let rows = new Map();
  const show = (items) => {
    const newRows = new Map();
    for (const item of items) {
      const existing = rows.get(key(item));
      const values = cells(item, existing !== undefined);
      const row = existing ?? h("tr", {}, ...tableCells(heads, values));
      if (existing) values.forEach((value, n) => { if (typeof value === "string" && row.children[n].textContent !== value) row.children[n].textContent = value; });
      newRows.set(key(item), row);
    }
    for (const [name, row] of rows) if (!newRows.has(name)) row.remove();
    for (const [name, row] of newRows) if (!rows.has(name)) body.append(row);
    rows = newRows;
    wrapper.hidden = items.length === 0;
    emptyNote.hidden = items.length > 0;
    emptyNote.textContent = emptyText;
  };
  wrapper.hidden = true;
  return { element: h("div", {}, emptyNote, wrapper), show };
}

/** A button that needs confirmation before it does something that cannot be undone. */
export function confirmButton(act, work, label = TEXT.remove, confirmLabel = TEXT.confirmRemove) {
  const button = h("button", { type: "button", onclick: () => {
    if (button.dataset.confirming) return act(work);
    button.dataset.confirming = "yes";
    button.textContent = confirmLabel;
    setTimeout(() => {
      delete button.dataset.confirming;
      button.textContent = label;
    }, 4000);
  } }, label);
  return button;
}

/** An input with its label above. */
export const field = (label, input) => h("label", { class: "field" }, h("span", {}, label), input);

/** A form of one row; `work(values)` runs on submit. */
export function form(act, fields, label, work) {
  const inputs = fields.map(([name, text, attributes]) => {
    const input = h("input", { name, required: true, ...attributes });
    return attributes?.type === "checkbox" ? h("label", { class: "checkbox" }, input, text) : field(text, input);
  });
  return h("form", { class: "fields", onsubmit: (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.target));
    return act(() => work(values));
  } }, ...inputs, h("button", { class: "primary" }, label));
}

/** A definition list of `[name, value]` pairs; pairs without a value are left out. */
export const facts = (pairs) => h("dl", {}, ...pairs.filter(([, value]) => value)
  .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));

/**
 * Runs `work` every `ms` until the signal is aborted, the first time after `ms`, and not while the page is hidden. Its errors
 * go to `showError` and are hidden when it succeeds again; other errors stay.
 */
export async function poll(ms, signal, showError, work) {
  let hasFailed = false;
  for (;;) {
    await nextTurn(ms, signal);
    if (signal.aborted) return;
    try {
      await work();
      if (hasFailed) showError(null);
      hasFailed = false;
    } catch (error) {
      if (error.name === "AbortError") return;
      hasFailed = true;
      showError(error);
    }
  }
}

/** Resolves after `ms`, or when the page is visible again if it is hidden then; at once when the signal is aborted. */
const nextTurn = (ms, signal) => new Promise((resolve) => {
  let isDue = false;
  const check = () => {
    if (!signal.aborted && (!isDue || document.hidden)) return;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", check);
    signal.removeEventListener("abort", check);
    resolve();
  };
  const timer = setTimeout(() => {
    isDue = true;
    check();
  }, ms);
  document.addEventListener("visibilitychange", check);
  signal.addEventListener("abort", check);
  check();
});
