// The conditions of a channel's rules: a kind and its value.

import * as api from "./api.js";
import { openDialog } from "./dialog.js";
import { h, iconButton } from "./dom.js";
import { nameOf } from "./links.js";
import { mediaPicker } from "./media-picker.js";
import { TEXT } from "./strings.js";

/** Kinds of items with which a channel can be made. */
const ITEM_KINDS = ["film", "episode", "music", "homeVideo", "audiobook", "extra"];

const GENRE_KINDS = "film,episode,music,homeVideo";

/** Suggestions of people follow the last key after this time, ms. */
const SUGGEST_DELAY_MS = 200;
const SUGGESTIONS = 12;

let datalists = 0; // Ids of lists of suggestions.

export const newCondition = (kind, userId) => ({ kind, ...(kind === "itemKind" && { value: "film" }), ...(kind === "unwatched" && { userId }) });

/** Conditions as a query of the library's items; null while a value is missing. */
export function queryOf(conditions) {
  const names = { folder: "folder", genre: "genre", series: "seriesId", year: "year", person: "person", itemKind: "kind" };
  const query = {};
  for (const { kind, value } of conditions) {
    if (kind === "unwatched") query.watched = "unwatched";
    else if (kind === "newest") query.sort = "added";
    else if (!value) return null;
    else query[names[kind]] = value;
  }
  return query;
}

/** A row with the kind and the value of a condition, which it changes. */
export function conditionRow(condition, { userId, onChange, onRemove }) {
  const value = h("span", { class: "condition-value" });
  const set = (text) => {
    condition.value = text;
    onChange();
  };
  const showValue = () => value.replaceChildren(...[VALUES[condition.kind]?.(condition, set)].filter(Boolean));
  const kind = h("select", { "aria-label": TEXT.ruleKind, onchange: () => {
    const fresh = newCondition(kind.value, userId);
    for (const name of ["value", "userId"]) delete condition[name];
    Object.assign(condition, fresh);
    showValue();
    onChange();
  } }, ...Object.keys(TEXT.ruleKinds).map((name) => h("option", { value: name, selected: name === condition.kind }, TEXT.ruleKinds[name])));
  showValue();
  return h("div", { class: "condition" }, onRemove && h("span", { class: "muted" }, TEXT.and), kind, value,
    onRemove && iconButton("close", TEXT.removeCondition, onRemove, { class: "round small quiet" }));
}

/** The control of each kind's value. */
const VALUES = {
  genre: (condition, set) => loadedSelect(condition, set, TEXT.ruleKinds.genre, () => api.getGenres(GENRE_KINDS).then(({ genres }) => genres.map(({ name }) => [name, name]))),
  series: (condition, set) => loadedSelect(condition, set, TEXT.ruleKinds.series, () => api.getAllSeries({ limit: 200 }).then(({ series }) => series.map(({ id, title }) => [id, title]))),
  itemKind: (condition, set) => select(condition, set, TEXT.ruleKinds.itemKind, ITEM_KINDS.map((kind) => [kind, TEXT.kindNames[kind]])),
  year: (condition, set) => h("input", { value: condition.value ?? "", "aria-label": TEXT.ruleKinds.year, placeholder: "1980-1989", maxlength: 9, pattern: "\\d{4}(-\\d{4})?", oninput: ({ target }) => set(target.validity.valid ? target.value.trim() : "") }),
  person: personInput,
  folder: folderButton,
};

function select(condition, set, label, choices) {
  const element = h("select", { "aria-label": label, onchange: () => set(element.value) }, ...choices.map(([value, text]) => h("option", { value, selected: value === condition.value }, text)));
  return element;
}

/** A select whose choices are loaded; the present value is one of them even if the library lacks it now. */
function loadedSelect(condition, set, label, load) {
  const element = select(condition, set, label, [["", TEXT.choose], ...(condition.value ? [[condition.value, condition.value]] : [])]);
  load().then((choices) => {
    const missing = condition.value && !choices.some(([value]) => value === condition.value) ? [[condition.value, condition.value]] : [];
    element.replaceChildren(...[["", TEXT.choose], ...missing, ...choices].map(([value, text]) => h("option", { value, selected: value === (condition.value ?? "") }, text)));
  }, () => {});
  return element;
}

function personInput(condition, set) {
  datalists += 1;
  const list = h("datalist", { id: `people-${datalists}` });
  let timer = null;
  const input = h("input", { value: condition.value ?? "", "aria-label": TEXT.ruleKinds.person, placeholder: TEXT.ruleKinds.person, list: list.id, maxlength: 200, oninput: () => {
    set(input.value.trim());
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const { people } = input.value.trim() ? await api.search(input.value.trim(), SUGGESTIONS).catch(() => ({ people: [] })) : { people: [] };
      list.replaceChildren(...people.map(({ name }) => h("option", { value: name })));
    }, SUGGEST_DELAY_MS);
  } });
  return h("span", {}, input, list);
}

function folderButton(condition, set) {
  const button = h("button", { type: "button", class: "folder-choice", onclick: () => {
    const dialog = openDialog(TEXT.chooseFolder, { className: "sheet" }, h("div", { class: "dialog-body" }, mediaPicker(({ path }) => {
      set(path);
      button.textContent = nameOf(path);
      dialog.close();
    }, { onlyFolders: true })));
  } }, condition.value ? nameOf(condition.value) : TEXT.chooseFolder);
  return button;
}
