// The guide: channels down, hours across. Only what is on screen is in the page, whatever there is.

import * as api from "./api.js";
import { h, iconButton } from "./dom.js";
import { watchLink } from "./links.js";
import { Programmes } from "./programmes.js";
import { recordButton } from "./recordings.js";
import { TEXT, day, lasting, time } from "./strings.js";

const HOUR = 3_600_000;
const HALF = HOUR / 2;
const DAYS = 7;
const BACK = 2 * HOUR;

/** Sizes in CSS pixels; the style sheet knows the first three by the same names. */
const ROW = 68;
const SIDE = 168;
const HEAD = 40;
const PX_PER_HOUR = 300;
const MARGIN = 300;

export async function guide(stage) {
  document.title = `${TEXT.guide} – Hearthcast`;
  const { channels } = await api.channels({});
  if (!channels.length) {
    stage.replaceChildren(h("div", { class: "card" }, h("p", {}, TEXT.noChannels),
      h("a", { class: "button primary", href: "#/settings?tab=channels", "data-first": true }, TEXT.makeChannel)));
    return {};
  }
  const { user } = await api.me();
  const grid = new Grid(stage, channels, user.role === "admin");
  return { leave: () => grid.close(), key: (name) => grid.key(name) };
}

class Grid {
  constructor(stage, channels, records) {
    this.channels = channels;
    this.records = records;
    this.from = Math.floor((Date.now() - BACK) / HALF) * HALF;
    this.to = this.from + DAYS * 24 * HOUR;
    this.at = { row: 0, instant: Date.now() }; // What is chosen: a channel and a time.
    this.programmes = new Programmes(channels, this.from, () => this.draw());
    this.cells = new Map();
    this.rows = new Map();
    this.hours = new Map();
    this.place = h("div", { class: "grid-space" });
    this.nowLine = h("div", { class: "now-line", "aria-hidden": "true" });
    this.scroller = h("div", { class: "grid", tabindex: -1, onscroll: () => this.draw() }, this.place);
    this.day = h("span", { class: "day" });
    this.details = h("section", { class: "details", "aria-live": "polite" });
    this.place.style.setProperty("width", `${SIDE + this.x(this.to)}px`);
    this.place.style.setProperty("height", `${HEAD + channels.length * ROW}px`);
    this.side = h("div", { class: "grid-side" });
    this.head = h("div", { class: "grid-head" });
    this.body = h("div", { class: "grid-body" }, this.nowLine);
    this.place.append(this.head, this.side, this.body);
    stage.replaceChildren(h("div", { class: "guide" },
      h("div", { class: "heading" }, h("h1", {}, TEXT.guide), this.day,
        h("div", { class: "buttons" },
          iconButton("previous", TEXT.dayBefore, () => this.jump(-24 * HOUR)),
          h("button", { type: "button", onclick: () => this.goNow() }, TEXT.now),
          iconButton("next", TEXT.dayAfter, () => this.jump(24 * HOUR)))),
      this.scroller, this.details));
    this.onresize = () => this.draw();
    window.addEventListener("resize", this.onresize);
    this.ticking = setInterval(() => this.draw(), 30_000);
    this.goNow(false);
  }

  x(instant) {
    return ((instant - this.from) / HOUR) * PX_PER_HOUR;
  }

  goNow(focus = true) {
    this.scroller.scrollLeft = this.x(Date.now()) - PX_PER_HOUR / 2;
    this.at = { row: this.at.row, instant: Date.now() };
    this.draw();
    if (focus) this.choose();
  }

  /** The same time another day. */
  jump(by) {
    const instant = Math.min(Math.max(this.at.instant + by, this.from), this.to - HALF);
    this.scroller.scrollLeft += this.x(this.from + instant - this.at.instant);
    this.at.instant = instant;
    this.draw();
  }

  /** Puts on screen what lies in the window, and takes away what does not. */
  draw() {
    const { scrollTop, scrollLeft, clientHeight, clientWidth } = this.scroller;
    const rows = [Math.max(0, Math.floor(scrollTop / ROW) - 1),
      Math.min(this.channels.length, Math.ceil((scrollTop + clientHeight - HEAD) / ROW) + 1)];
    const begin = this.from + (Math.max(0, scrollLeft - MARGIN) / PX_PER_HOUR) * HOUR;
    const end = Math.min(this.to, this.from + ((scrollLeft + clientWidth - SIDE + MARGIN) / PX_PER_HOUR) * HOUR);
    const now = Date.now();
    const [cells, sides, hours] = [new Map(), new Map(), new Map()];
    for (let row = rows[0]; row < rows[1]; row += 1) {
      sides.set(row, this.rows.get(row) ?? this.channel(row));
      for (const entry of this.programmes.between(row, begin, end)) {
        const key = `${row} ${entry.id}`;
        const cell = this.cells.get(key) ?? this.cell(row, entry);
        cell.classList.toggle("on-air", entry.startMs <= now && now < entry.endMs);
        cell.classList.toggle("over", entry.endMs <= now);
        cells.set(key, cell);
      }
    }
    for (let hour = Math.ceil(begin / HALF) * HALF; hour < end; hour += HALF) {
      hours.set(hour, this.hours.get(hour) ?? h("span", { style: { left: `${this.x(hour)}px` } }, time(hour)));
    }
    const held = document.activeElement;
    swap(this.body, this.cells, cells);
    swap(this.side, this.rows, sides);
    swap(this.head, this.hours, hours);
    [this.cells, this.rows, this.hours] = [cells, sides, hours];
    if (held?.isConnected === false) this.scroller.focus({ preventScroll: true });
    this.nowLine.style.setProperty("left", `${this.x(now)}px`);
    this.day.textContent = day(Math.max(this.from, this.from + ((scrollLeft + 60) / PX_PER_HOUR) * HOUR));
  }

  channel(row) {
    const { id, number, name } = this.channels[row];
    return h("a", { class: "grid-channel", href: watchLink(id), style: { top: `${row * ROW}px` } },
      h("span", { class: "quiet" }, number), h("span", { class: "name" }, name));
  }

  cell(row, entry) {
    const left = Math.max(0, this.x(entry.startMs));
    const width = Math.max(8, Math.min(this.x(entry.endMs), this.x(this.to)) - left - 4);
    const channel = this.channels[row];
    const choose = () => {
      this.at = { row, instant: Math.max(entry.startMs, this.from) };
      this.tell(row, entry);
    };
    return h("button", {
      type: "button", class: "cell", "data-key": `${channel.id} ${entry.id}`,
      style: { left: `${left}px`, top: `${row * ROW}px`, width: `${width}px` },
      onfocus: choose,
      onclick: () => {
        choose();
        if (entry.startMs <= Date.now() && Date.now() < entry.endMs) location.hash = watchLink(channel.id);
      },
    }, h("span", { class: "title" }, entry.title), h("span", { class: "quiet" }, time(entry.startMs)),
      h("span", { class: "unseen" }, channel.name));
  }

  /** What is known of the programme that is chosen. */
  tell(row, entry) {
    const channel = this.channels[row];
    const episode = entry.season && entry.episode ? `S${entry.season} E${entry.episode}` : null;
    const live = entry.startMs <= Date.now() && Date.now() < entry.endMs;
    this.details.replaceChildren(
      h("h2", {}, entry.title),
      h("p", { class: "quiet" }, [`${channel.number} ${channel.name}`, `${day(entry.startMs)}, ${time(entry.startMs)}–${time(entry.endMs)}`,
        lasting((entry.endMs - entry.startMs) / 1000), episode, entry.subtitle].filter(Boolean).join(" · ")),
      entry.parts?.length > 1
        ? h("p", {}, entry.parts.map(({ title, startMs }) => `${time(startMs)} ${title}`).join(" · "))
        : entry.description ? h("p", {}, entry.description) : "",
      h("div", { class: "actions" },
        live ? h("a", { class: "button", href: watchLink(channel.id) }, TEXT.watch) : "",
        this.records && entry.endMs > Date.now() && !entry.parts ? recordButton(channel.id, entry) : ""));
  }

  /** Puts the focus on what is chosen, asking for it first when it has not come yet. */
  async choose() {
    const { row, instant } = this.at;
    let entry = this.programmes.at(row, instant);
    if (!entry) {
      await this.programmes.known(row, instant);
      if (this.at.row !== row || this.at.instant !== instant) return;
      entry = this.programmes.at(row, instant);
    }
    const box = this.scroller;
    const top = row * ROW;
    if (top < box.scrollTop) box.scrollTop = top;
    if (top + ROW + HEAD > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW + HEAD - box.clientHeight;
    const left = this.x(entry ? Math.max(entry.startMs, this.from) : instant);
    if (left < box.scrollLeft) box.scrollLeft = Math.max(0, left - 40);
    if (left + 120 > box.scrollLeft + box.clientWidth - SIDE) box.scrollLeft = left - (box.clientWidth - SIDE) / 2;
    this.draw();
    if (!entry) return;
    const cell = this.cells.get(`${row} ${entry.id}`);
    const kept = { ...this.at };
    cell?.focus({ preventScroll: true });
    this.programmes.around(row, instant);
    this.at = kept; // Going down and up again comes back to the same time.
  }

  key(name) {
    const inside = this.scroller.contains(document.activeElement);
    const here = this.programmes.at(this.at.row, this.at.instant);
    const last = this.channels.length - 1;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW) - 1);
    const to = (row, instant = this.at.instant) => {
      this.at = { row: Math.min(last, Math.max(0, row)), instant: Math.min(this.to - 1, Math.max(this.from, instant)) };
      this.choose();
      return true;
    };
    if (name === "PageDown" || name === "ChannelDown") return to(this.at.row + page);
    if (name === "PageUp" || name === "ChannelUp") return to(this.at.row - page);
    if (name === "Home") {
      this.goNow();
      return true;
    }
    if (!inside) return name === "ArrowDown" && !this.details.contains(document.activeElement) ? to(this.at.row) : false;
    if (name === "ArrowDown") return this.at.row < last ? to(this.at.row + 1) : false;
    if (name === "ArrowUp") return this.at.row > 0 ? to(this.at.row - 1) : false;
    if (name === "ArrowRight") return to(this.at.row, here ? here.endMs : this.at.instant + HALF);
    if (name === "ArrowLeft") return to(this.at.row, here ? Math.max(this.from, here.startMs) - 1 : this.at.instant - HALF);
    return false;
  }

  close() {
    clearInterval(this.ticking);
    window.removeEventListener("resize", this.onresize);
    this.programmes.close();
  }
}

/** Brings a box from one set of children to another without touching what stays. */
function swap(box, before, after) {
  for (const [key, element] of before) if (after.get(key) !== element) element.remove();
  for (const [key, element] of after) if (before.get(key) !== element) box.append(element);
}
