// A channel by the clock (`scheduleMode: "blocks"`): lists of titles by name, and on which days and at which times they play.

import { ChannelItems } from "./channel-items.js";
import { ORDERS } from "./channel-orders.js";
import { h, icon, iconButton } from "./dom.js";
import { field } from "./widgets.js";
import { TEXT } from "./strings.js";

const WEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/** Limits of the server. */
const MAX_LISTS = 64;
const MAX_LAYERS = 64;
const MAX_BLOCKS = 96;

/** Programmes begin at multiples of so many minutes; 0: at once. */
const ROUNDINGS = [0, 5, 10, 15, 30, 60];

const newBlock = (list) => ({ at: "20:00", until: "", slots: [{ list, order: "shuffle", count: "" }] });

export class ChannelClock {
  /** @param {object | undefined} schedule  as the API has it */
  constructor(schedule, { onChange, userId }) {
    this.onChange = onChange;
    this.userId = userId;
    const sources = Object.entries(schedule?.sources ?? { [TEXT.listName(1)]: [] });
    this.lists = sources.map(([name, items]) => this.newList(name, items));
    const byName = new Map(this.lists.map((list) => [list.name, list]));
    this.dayStart = schedule?.dayStart ?? "05:00";
    this.rounding = schedule?.padToMinutes ?? 0;
    this.layers = schedule?.layers?.map(({ when, blocks }) => ({
      weekdays: new Set(when?.weekdays ?? []), from: when?.from ?? "", to: when?.to ?? "",
      blocks: blocks.map(({ at, until, slots }) => ({ at, until: until ?? "", slots: slots.map(({ source, order, count }) => ({ list: byName.get(source), order: order ?? "shuffle", count: count ?? "" })) })),
    })) ?? [{ weekdays: new Set(), from: "", to: "", blocks: [{ ...newBlock(this.lists[0]), at: "05:00" }] }];
    this.element = h("div", { class: "clock" });
    this.render();
  }

  newList(name, items = []) {
    return { name, editor: new ChannelItems(items, { onChange: () => this.onChange(), label: name, userId: this.userId }) };
  }

  /** The schedule as the API expects it. */
  read() {
    return {
      dayStart: this.dayStart, padToMinutes: this.rounding,
      sources: Object.fromEntries(this.lists.map(({ name, editor }) => [name, editor.read()])),
      layers: this.layers.map(({ weekdays, from, to, blocks }) => ({
        ...((weekdays.size > 0 || from) && { when: { ...(from && to && { from, to }), ...(weekdays.size > 0 && { weekdays: WEEKDAYS.filter((day) => weekdays.has(day)) }) } }),
        blocks: blocks.map(({ at, until, slots }) => ({ at, ...(until && { until }),
          slots: slots.map(({ list, order, count }) => ({ source: list.name, order, ...(count && { count: Number(count) }) })) })),
      })),
    };
  }

  isComplete() {
    return this.lists.every(({ name, editor }) => name && editor.isComplete()) && new Set(this.lists.map(({ name }) => name)).size === this.lists.length;
  }

  changed() {
    this.render();
    this.onChange();
  }

  render() {
    const start = h("input", { type: "time", required: true, value: this.dayStart, onchange: () => this.set(() => { this.dayStart = start.value || this.dayStart; }) });
    const rounding = h("select", { onchange: () => this.set(() => { this.rounding = Number(rounding.value); }) },
      ...ROUNDINGS.map((minutes) => h("option", { value: String(minutes), selected: minutes === this.rounding }, minutes === 0 ? TEXT.noRounding : TEXT.roundTo(minutes))));
    this.element.replaceChildren(
      h("h3", {}, TEXT.lists), h("p", { class: "muted" }, TEXT.listsWhy), ...this.lists.map((list) => this.createList(list)),
      h("p", {}, h("button", { type: "button", disabled: this.lists.length >= MAX_LISTS, onclick: () => {
        this.lists.push(this.newList(this.freeName()));
        this.changed();
      } }, icon("plus"), TEXT.addList)),
      h("h3", {}, TEXT.days), h("p", { class: "muted" }, TEXT.daysWhy), ...this.layers.map((layer) => this.createLayer(layer)),
      h("p", {}, h("button", { type: "button", disabled: this.layers.length >= MAX_LAYERS, onclick: () => {
        this.layers.unshift({ weekdays: new Set(["sat", "sun"]), from: "", to: "", blocks: [newBlock(this.lists[0])] });
        this.changed();
      } }, icon("plus"), TEXT.addDays)),
      h("div", { class: "fields" }, field(TEXT.dayStart, start), field(TEXT.rounding, rounding)));
  }

  set(change) {
    change();
    this.onChange();
  }

  freeName() {
    for (let n = this.lists.length + 1; ; n += 1) if (!this.lists.some(({ name }) => name === TEXT.listName(n))) return TEXT.listName(n);
  }

  createList(list) {
    const name = h("input", { required: true, maxlength: 60, value: list.name, "aria-label": TEXT.listNameLabel, onchange: () => {
      list.name = name.value.trim() || list.name;
      this.changed();
    } });
    return h("section", { class: "clock-list", "aria-label": list.name },
      h("div", { class: "clock-head" }, name, this.lists.length > 1 && iconButton("close", `${TEXT.remove}: ${list.name}`, () => {
        this.lists = this.lists.filter((other) => other !== list);
        for (const { blocks } of this.layers) for (const { slots } of blocks) for (const slot of slots) if (slot.list === list) [slot.list] = this.lists;
        this.changed();
      }, { class: "round small quiet" })), list.editor.element);
  }

  createLayer(layer) {
    const days = WEEKDAYS.map((day) => h("button", { type: "button", class: "day-toggle", "aria-pressed": String(layer.weekdays.has(day)), onclick: ({ currentTarget }) => this.set(() => {
      if (!layer.weekdays.delete(day)) layer.weekdays.add(day);
      currentTarget.setAttribute("aria-pressed", String(layer.weekdays.has(day)));
      note.textContent = noteOf(layer);
    }) }, h("span", { "aria-hidden": "true" }, TEXT.weekdays[day].slice(0, 2)), h("span", { class: "visually-hidden" }, TEXT.weekdays[day])));
    const season = (name, label) => {
      const input = h("input", { value: layer[name], maxlength: 5, pattern: "\\d{2}-\\d{2}", placeholder: "12-24", onchange: () => this.set(() => { layer[name] = input.validity.valid ? input.value : ""; }) });
      return field(label, input);
    };
    const note = h("span", { class: "muted" }, noteOf(layer));
    return h("section", { class: "clock-layer" },
      h("div", { class: "clock-head" }, h("div", { class: "day-toggles", role: "group", "aria-label": TEXT.days }, ...days), note,
        this.layers.length > 1 && iconButton("close", TEXT.removeDays, () => {
          this.layers = this.layers.filter((other) => other !== layer);
          this.changed();
        }, { class: "round small quiet" })),
      ...layer.blocks.map((block) => this.createBlock(layer, block)),
      h("div", { class: "items-add" }, h("button", { type: "button", disabled: layer.blocks.length >= MAX_BLOCKS, onclick: () => {
        layer.blocks.push({ ...newBlock(this.lists[0]), at: afterLast(layer.blocks) });
        this.changed();
      } }, icon("plus"), TEXT.addTime),
      h("details", { class: "season", open: Boolean(layer.from) }, h("summary", {}, TEXT.season), h("div", { class: "fields" }, season("from", TEXT.seasonFrom), season("to", TEXT.seasonTo)))));
  }

  createBlock(layer, block) {
    const time = (name, label, required) => {
      const input = h("input", { type: "time", required, value: block[name], "aria-label": label, title: label, onchange: () => this.set(() => { block[name] = input.value; }) });
      return h("label", { class: "block-time" }, h("span", { class: "muted" }, label), input);
    };
    return h("div", { class: "block" }, time("at", TEXT.blockAt, true), time("until", TEXT.blockUntil, false),
      h("div", { class: "slots" }, ...block.slots.map((slot) => this.createSlot(block, slot))),
      layer.blocks.length > 1 && iconButton("close", `${TEXT.remove}: ${block.at}`, () => {
        layer.blocks = layer.blocks.filter((other) => other !== block);
        this.changed();
      }, { class: "round small quiet" }));
  }

  createSlot(block, slot) {
    const list = h("select", { "aria-label": TEXT.listNameLabel, onchange: () => this.set(() => { slot.list = this.lists[list.selectedIndex]; }) },
      ...this.lists.map((one) => h("option", { selected: one === slot.list }, one.name)));
    const order = h("select", { "aria-label": TEXT.order, onchange: () => this.set(() => { slot.order = order.value; }) },
      ...ORDERS.map((name) => h("option", { value: name, selected: name === slot.order }, TEXT.modes[name])));
    const count = h("input", { type: "number", min: 1, max: 1000, value: slot.count, placeholder: TEXT.asManyAsFit, "aria-label": TEXT.howMany, title: TEXT.howMany, oninput: () => this.set(() => { slot.count = count.value; }) });
    const isLast = block.slots.at(-1) === slot;
    return h("div", { class: "slot" }, list, order, count,
      isLast && iconButton("plus", TEXT.addSlot, () => {
        block.slots.push({ ...slot });
        this.changed();
      }, { class: "round small quiet" }),
      block.slots.length > 1 && iconButton("close", TEXT.removeSlot, () => {
        block.slots = block.slots.filter((other) => other !== slot);
        this.changed();
      }, { class: "round small quiet" }));
  }
}

const noteOf = ({ weekdays }) => (weekdays.size === 0 || weekdays.size === WEEKDAYS.length ? TEXT.everyDay : "");

/** Two hours after the last block, for the next one. */
function afterLast(blocks) {
  const [hours, minutes] = (blocks.at(-1)?.at ?? "18:00").split(":").map(Number);
  return `${String((hours + 2) % 24).padStart(2, "0")}:${String(minutes).padStart(2, "0")}`;
}
