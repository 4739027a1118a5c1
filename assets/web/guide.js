// The guide: channels down, hours across. Only what is on screen is in the page, whatever there is.

import * as api from "./api.js";
import { h, iconButton } from "./dom.js";
import { focus } from "./keys.js";
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
const PX_PER_HOUR = 360;
const MARGIN = 300;

/** What every cell is a copy of: title, time, and for who hears the page its channel. */
const CELL = h("button", { type: "button", class: "cell" },
  h("span", { class: "title" }), h("span", { class: "quiet" }), h("span", { class: "unseen" }));

export async function guide(stage) {
  document.title = `${TEXT.guide} – Hearthcast`;
  const [{ channels }, { user }] = await Promise.all([api.channels({}), api.me()]);
  if (!channels.length) {
    stage.replaceChildren(h("div", { class: "card" }, h("p", {}, TEXT.noChannels),
      h("a", { class: "button primary", href: "#/settings?tab=channels", "data-first": true }, TEXT.makeChannel)));
    return {};
  }
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
    this.programmes = new Programmes(channels, this.from, () => this.arrived());
    this.cells = new Map();
    this.rows = new Map();
    this.hours = new Map();
    this.shown = new WeakMap(); // What a cell shows: { row, entry }.
    this.window = ""; // What is drawn, so that it is not drawn again.
    this.place = h("div", { class: "grid-space" });
    this.nowLine = h("div", { class: "now-line", "aria-hidden": "true" });
    this.scroller = h("div", { class: "grid", tabindex: -1, onscroll: () => this.scrolled() }, this.place);
    this.day = h("span", { class: "day" });
    this.details = h("section", { class: "details", "aria-live": "polite" });
    this.place.style.setProperty("width", `${SIDE + this.x(this.to)}px`);
    this.place.style.setProperty("height", `${HEAD + channels.length * ROW}px`);
    this.side = h("div", { class: "grid-side" });
    this.head = h("div", { class: "grid-head" });
    this.body = h("div", { class: "grid-body", onfocusin: (event) => this.chosen(event), onclick: (event) => this.pressed(event) }, this.nowLine);
    this.place.append(this.head, this.side, this.body);
    stage.replaceChildren(h("div", { class: "guide" },
      h("div", { class: "heading" }, h("h1", {}, TEXT.guide), this.day,
        h("div", { class: "buttons" },
          iconButton("previous", TEXT.dayBefore, () => this.jump(-24 * HOUR)),
          h("button", { type: "button", onclick: () => this.goNow() }, TEXT.now),
          iconButton("next", TEXT.dayAfter, () => this.jump(24 * HOUR)))),
      this.scroller, this.details));
    // Sizes are asked for when they change, never while something is drawn: the page would be laid out for every answer.
    this.box = { top: 0, left: 0, width: this.scroller.clientWidth, height: this.scroller.clientHeight };
    this.sized = new ResizeObserver(() => {
      [this.box.width, this.box.height] = [this.scroller.clientWidth, this.scroller.clientHeight];
      this.draw();
    });
    this.sized.observe(this.scroller);
    this.ticking = setInterval(() => this.tick(), 30_000);
    this.goNow(false);
    this.draw(); // Asks for what is to be seen.
    this.tick();
  }

  x(instant) {
    return ((instant - this.from) / HOUR) * PX_PER_HOUR;
  }

  goNow(focus = true) {
    this.scrollTo(this.box.top, this.x(Date.now()) - PX_PER_HOUR / 2);
    this.at = { row: this.at.row, instant: Date.now() };
    if (focus) this.choose();
  }

  /** The same time another day. */
  jump(by) {
    const instant = Math.min(Math.max(this.at.instant + by, this.from), this.to - HALF);
    this.scrollTo(this.box.top, this.box.left + this.x(this.from + instant - this.at.instant));
    this.at.instant = instant;
  }

  /** Moves the window there. */
  scrollTo(top, left) {
    const { box, scroller } = this;
    top = Math.round(Math.max(0, Math.min(top, HEAD + this.channels.length * ROW - box.height)));
    left = Math.round(Math.max(0, Math.min(left, SIDE + this.x(this.to) - box.width)));
    if (top !== box.top) scroller.scrollTop = top;
    if (left !== box.left) scroller.scrollLeft = left;
    [box.top, box.left] = [top, left];
    this.soon();
  }

  scrolled() {
    [this.box.top, this.box.left] = [this.scroller.scrollTop, this.scroller.scrollLeft];
    this.draw();
  }

  /** Programmes have come. */
  arrived() {
    this.window = "";
    if (this.cells.size === 0) this.draw(0);
    this.soon();
    const entry = this.details.firstChild ? null : this.programmes.at(this.at.row, this.at.instant);
    if (entry) this.tell(this.at.row, entry); // What one begins with.
  }

  /** Draws with the next picture; what is new first where it is seen, then what lies beside it. */
  soon() {
    this.coming ??= requestAnimationFrame(() => {
      this.coming = null;
      const anew = this.window === "";
      this.draw(anew ? 0 : MARGIN);
      if (anew) this.soon();
    });
  }

  /** Puts on screen what lies in the window and `margin` beside it, and takes away what does not. */
  draw(margin = MARGIN) {
    const { top, left, width, height } = this.box;
    const rows = [Math.max(0, Math.floor(top / ROW) - 1),
      Math.min(this.channels.length, Math.ceil((top + height - HEAD) / ROW) + 1)];
    const step = (x, round) => round(x / PX_PER_HOUR * HOUR / HALF) * HALF;
    const begin = this.from + step(Math.max(0, left - margin), Math.floor);
    const end = Math.min(this.to, this.from + step(left + width - SIDE + margin, Math.ceil));
    const today = day(Math.max(this.from, this.from + ((left + 60) / PX_PER_HOUR) * HOUR));
    if (this.day.textContent !== today) this.day.textContent = today;
    const window = `${rows} ${begin} ${end}`;
    if (window === this.window) return;
    this.window = window;
    const [cells, sides, hours] = [new Map(), new Map(), new Map()];
    for (let row = rows[0]; row < rows[1]; row += 1) {
      sides.set(row, this.rows.get(row) ?? this.channel(row));
      for (const entry of this.programmes.between(row, begin, end)) {
        const key = `${row} ${entry.id}`;
        cells.set(key, this.cells.get(key) ?? this.cell(row, entry));
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
  }

  /** Time goes on: the line moves, what begins is on air. */
  tick() {
    const now = Date.now();
    this.nowLine.style.setProperty("left", `${this.x(now)}px`);
    for (const cell of this.cells.values()) mark(cell, this.shown.get(cell).entry, now);
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
    const cell = CELL.cloneNode(true);
    const [title, begins, where] = cell.children;
    title.textContent = entry.title;
    begins.textContent = time(entry.startMs);
    where.textContent = channel.name;
    cell.dataset.key = `${channel.id} ${entry.id}`;
    for (const [property, px] of [["left", left], ["top", row * ROW], ["width", width]]) cell.style.setProperty(property, `${px}px`);
    mark(cell, entry, Date.now());
    this.shown.set(cell, { row, entry });
    return cell;
  }

  /** A cell has the focus: it is what is chosen from now on. */
  chosen({ target }) {
    const { row, entry } = this.shown.get(target);
    if (!this.going) this.at = { row, instant: Math.max(entry.startMs, this.from) };
    // Told after the focus is seen: nobody reads as fast as one presses.
    cancelAnimationFrame(this.telling);
    this.telling = requestAnimationFrame(() => this.tell(row, entry));
  }

  pressed({ target }) {
    const shown = this.shown.get(target.closest(".cell"));
    if (!shown) return;
    const { row, entry } = shown;
    this.at = { row, instant: Math.max(entry.startMs, this.from) };
    this.tell(row, entry);
    if (entry.startMs <= Date.now() && Date.now() < entry.endMs) location.hash = watchLink(this.channels[row].id);
    else focus(this.details.querySelector("a, button")); // What can be done with it.
  }

  /** What is known of the programme that is chosen. */
  tell(row, entry) {
    const channel = this.channels[row];
    const episode = entry.season && entry.episode ? `S${entry.season} E${entry.episode}` : null;
    const live = entry.startMs <= Date.now() && Date.now() < entry.endMs;
    this.details.replaceChildren(h("div", {},
      h("h2", {}, entry.title),
      h("p", { class: "quiet" }, [`${channel.number} ${channel.name}`, `${day(entry.startMs)}, ${time(entry.startMs)}–${time(entry.endMs)}`,
        lasting((entry.endMs - entry.startMs) / 1000), episode, entry.subtitle].filter(Boolean).join(" · ")),
      entry.parts?.length > 1
        ? h("p", {}, entry.parts.map(({ title, startMs }) => `${time(startMs)} ${title}`).join(" · "))
        : entry.description ? h("p", {}, entry.description) : ""),
    h("div", { class: "actions" },
      live ? h("a", { class: "button", href: watchLink(channel.id) }, TEXT.watch) : "",
      this.records && !channel.onDemand && entry.endMs > Date.now() && !entry.parts ? recordButton(channel.id, entry) : ""));
  }

  /** Puts the focus on what is chosen; on its channel at once when the programme has still to come. */
  async choose() {
    const { row, instant } = this.at;
    if (this.settle(row, instant)) return;
    await this.programmes.known(row, instant);
    if (this.at.row === row && this.at.instant === instant) this.settle(row, instant, TEXT.nothingOn);
  }

  /**
   * Brings a place into the window; true when its programme has the focus. That is all that is laid out for a press: what
   * comes into the window with it is drawn with the next picture.
   */
  settle(row, instant, none = TEXT.loading) {
    const entry = this.programmes.at(row, instant);
    const { box } = this;
    let { top, left } = box;
    if (row * ROW < top) top = row * ROW;
    if ((row + 1) * ROW + HEAD > top + box.height) top = (row + 1) * ROW + HEAD - box.height;
    const begin = this.x(entry ? Math.max(entry.startMs, this.from) : instant);
    if (begin < left) left = begin - 40;
    if (begin + 120 > left + box.width - SIDE) left = begin - (box.width - SIDE) / 2;
    const kept = entry
      ? there(this.cells, `${row} ${entry.id}`, this.body, () => this.cell(row, entry))
      : there(this.rows, row, this.side, () => this.channel(row));
    this.going = true; // Going down and up again comes back to the same time.
    kept.focus({ preventScroll: true });
    this.going = false;
    this.scrollTo(top, left);
    if (entry) this.programmes.around(row, instant);
    else this.details.replaceChildren(h("div", {}, h("h2", {}, this.channels[row].name), h("p", { class: "quiet" }, none)));
    return entry !== undefined;
  }

  key(name) {
    const inside = this.scroller.contains(document.activeElement);
    const here = this.programmes.at(this.at.row, this.at.instant);
    const last = this.channels.length - 1;
    const page = Math.max(1, Math.floor(this.box.height / ROW) - 1);
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
    this.sized.disconnect();
    for (const frame of [this.coming, this.telling]) cancelAnimationFrame(frame);
    this.programmes.close();
  }
}

/** Brings a box from one set of children to another without touching what stays. */
function swap(box, before, after) {
  for (const [key, element] of before) if (after.get(key) !== element) element.remove();
  box.append(...[...after].filter(([key, element]) => before.get(key) !== element).map(([, element]) => element));
}

/** One of what is drawn, drawn now when it is not. */
function there(drawn, key, box, make) {
  if (!drawn.has(key)) {
    drawn.set(key, make());
    box.append(drawn.get(key));
  }
  return drawn.get(key);
}

/** What is on is told from what is over. */
function mark(cell, { startMs, endMs }, now) {
  cell.classList.toggle("on-air", startMs <= now && now < endMs);
  cell.classList.toggle("over", endMs <= now);
}
