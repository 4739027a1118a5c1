// What a channel plays: rules that follow the library, folders and files. Each row says how many titles it has.

import * as api from "./api.js";
import { conditionRow, newCondition, queryOf } from "./channel-conditions.js";
import { h, icon, iconButton } from "./dom.js";
import { findFocusable, focus } from "./keys.js";
import { nameOf, folderOf } from "./links.js";
import { mediaPicker } from "./media-picker.js";
import { TEXT } from "./strings.js";

/** Most conditions of a rule and titles it selects, as on the server. */
const MAX_CONDITIONS = 8;
const MAX_TITLES = 5000;

/** Titles are counted this long after the last change, ms. */
const COUNT_DELAY_MS = 300;

/** Kinds of rules that can be added. */
const RULE_KINDS = ["genre", "series", "person", "folder", "year", "itemKind", "newest", "unwatched"];

/** Conditions of a rule as the API has it. */
const conditionsOf = ({ kind, value, userId, and = [] }) => [{ kind, value, userId }, ...and];

export class ChannelItems {
  /**
   * @param {object[]} items  as the API has them
   * @param {object} options
   * @param {() => void} options.onChange
   * @param {string} options.label
   * @param {string} [options.userId]  the administrator, whose unwatched titles a rule can select
   */
  constructor(items, { onChange, label, userId }) {
    this.onChange = onChange;
    this.userId = userId;
    this.isWeighted = false;
    this.items = items.map((item) => (item.rule ? { conditions: conditionsOf(item.rule), count: item.rule.count, weight: item.weight ?? 1 } : { ...item, weight: item.weight ?? 1 }));
    this.list = h("ul", { class: "channel-items" });
    this.picker = h("div", { class: "picker", hidden: true });
    const add = h("select", { "aria-label": TEXT.addRule, "data-key": "add-rule", onchange: () => {
      if (add.value) this.addRule(add.value);
      add.value = "";
    } }, h("option", { value: "" }, TEXT.addRule), ...RULE_KINDS.map((kind) => h("option", { value: kind }, TEXT.ruleKinds[kind])));
    this.element = h("div", { class: "items-editor", role: "group", "aria-label": label }, this.list,
      h("div", { class: "items-add" }, add, h("button", { type: "button", onclick: () => this.togglePicker() }, icon("folder"), TEXT.addFolderOrFile)), this.picker);
    this.render();
  }

  /** The items as the API expects them. */
  read() {
    const clean = ({ kind, value, userId }) => ({ kind, ...(value && { value }), ...(userId && { userId }) });
    return this.items.map(({ conditions, count, weight, path, recursive, title }) => (conditions
      ? { rule: { ...clean(conditions[0]), ...(count && { count }), ...(conditions.length > 1 && { and: conditions.slice(1).map(clean) }) }, weight }
      : { path, recursive, ...(title && { title }), weight }));
  }

  /** Whether every rule has its values. */
  isComplete() {
    return this.items.length > 0 && this.items.every(({ conditions }) => !conditions || conditions.every(({ kind, value }) => kind === "newest" || kind === "unwatched" || value));
  }

  setWeighted(isWeighted) {
    if (this.isWeighted === isWeighted) return;
    this.isWeighted = isWeighted;
    this.render();
  }

  addRule(kind) {
    this.items.push({ conditions: [newCondition(kind, this.userId)], weight: 1 });
    this.changed();
    focus(findFocusable(this.list.lastElementChild)[0]);
  }

  addPath({ path, kind }) {
    if (this.items.some((item) => item.path === path)) return;
    this.items.push({ path, recursive: kind === "folder", weight: 1 });
    this.changed();
  }

  togglePicker() {
    this.picker.hidden = !this.picker.hidden;
    if (!this.picker.firstChild) this.picker.append(mediaPicker((entry) => this.addPath(entry)));
  }

  changed() {
    this.render();
    this.onChange();
  }

  render() {
    this.list.replaceChildren(...this.items.map((item) => (item.conditions ? this.createRule(item) : this.createPath(item))));
    this.list.hidden = this.items.length === 0;
  }

  remove(item) {
    this.items = this.items.filter((other) => other !== item);
    this.changed();
    focus(findFocusable(this.element)[0]);
  }

  removeButton(item, name) {
    return iconButton("close", `${TEXT.remove}: ${name}`, () => this.remove(item), { class: "round small quiet" });
  }

  createPath(item) {
    return h("li", { class: "channel-item" }, icon(item.recursive ? "folder" : "video"),
      h("span", { class: "item-name" }, h("span", {}, item.title ?? nameOf(item.path)), h("span", { class: "muted" }, folderOf(item.path))),
      this.createWeight(item), this.removeButton(item, nameOf(item.path)));
  }

  createRule(item) {
    const count = h("span", { class: "muted rule-count", role: "status" });
    const change = () => {
      countTitles(item, count);
      this.onChange();
    };
    const rows = item.conditions.map((condition, n) => conditionRow(condition, {
      userId: this.userId, onChange: change,
      onRemove: n > 0 && (() => {
        item.conditions.splice(n, 1);
        this.changed();
      }),
    }));
    const limit = h("input", { type: "number", min: 1, max: MAX_TITLES, value: item.count ?? "", placeholder: TEXT.noLimit, "aria-label": TEXT.atMost, oninput: () => {
      item.count = Number(limit.value) || undefined;
      change();
    } });
    countTitles(item, count);
    return h("li", { class: "channel-item rule" },
      h("div", { class: "conditions" }, ...rows,
        h("div", { class: "rule-foot" },
          item.conditions.length < MAX_CONDITIONS && h("button", { type: "button", class: "plain", onclick: () => {
            item.conditions.push(newCondition("genre", this.userId));
            this.changed();
          } }, icon("plus"), TEXT.addCondition),
          h("label", { class: "limit" }, h("span", { class: "muted" }, TEXT.atMost), limit), count)),
      this.createWeight(item), this.removeButton(item, TEXT.ruleKinds[item.conditions[0].kind]));
  }

  createWeight(item) {
    if (!this.isWeighted) return null;
    const input = h("input", { type: "number", class: "weight", min: 1, max: 100, value: item.weight, "aria-label": TEXT.weight, title: TEXT.weight, oninput: () => {
      item.weight = Math.min(100, Math.max(1, Number(input.value) || 1));
      this.onChange();
    } });
    return input;
  }
}

/** Shows how many titles a rule has now. */
function countTitles({ conditions, count }, element) {
  clearTimeout(Number(element.dataset.timer));
  const query = queryOf(conditions);
  if (!query) {
    element.textContent = "";
    return;
  }
  element.dataset.timer = String(setTimeout(async () => {
    const { total } = await api.getItems({ ...query, limit: 1 }).catch(() => ({ total: null }));
    element.textContent = total === null ? "" : total === 0 ? TEXT.matchesNothing : TEXT.titles(Math.min(total, count ?? total));
  }, COUNT_DELAY_MS));
}
