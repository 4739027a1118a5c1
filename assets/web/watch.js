// A channel as it is on: up and down, by number, back to the last one, from the start of what is on.

import * as api from "./api.js";
import { figures } from "./controls.js";
import { h, icon, iconButton } from "./dom.js";
import { focus, move } from "./keys.js";
import { watchLink } from "./links.js";
import { recordButton } from "./recordings.js";
import { attachLive } from "./source.js";
import { TEXT, explain, since, time, waiting } from "./strings.js";

const HIDE_AFTER_MS = 4000;

/** How long a player may show what was skipped: it plays so far behind the newest. */
const SKIPPED_MS = 8000;

/** How often it is asked what is on a channel on demand: its programmes end as people watch, and others skip, too. */
const ON_DEMAND_MS = 10_000;

/** So long one may take between two digits of a number. */
const DIGITS_MS = 1500;

const LAST = "hearthcast.channel";

export async function watch(stage, params) {
  const { channels } = await api.channels({});
  const index = Math.max(0, channels.findIndex(({ id }) => String(id) === params.get("channel")));
  if (!channels.length) {
    location.replace("#/guide");
    return {};
  }
  const screen = new Television(stage, channels);
  screen.tune(index, { fromStart: params.get("from") === "start" });
  return { leave: (how) => screen.close(how), key: (name) => screen.key(name) };
}

/** The channel watched before this one, by id. */
const remembered = {
  get: () => {
    try {
      return JSON.parse(sessionStorage.getItem(LAST)) ?? [];
    } catch {
      return [];
    }
  },
  /** Notes the one watched now; the one before stays known. */
  put(id) {
    const [now, before] = remembered.get();
    if (now === id) return;
    try {
      sessionStorage.setItem(LAST, JSON.stringify([id, now ?? before]));
    } catch {
      // Without storage there is no last channel.
    }
  },
};

class Television {
  constructor(stage, channels) {
    this.channels = channels;
    this.turn = 0;
    this.letGo = () => {};
    this.session = `web-${Math.random().toString(36).slice(2)}${Math.random().toString(36).slice(2)}`;
    this.digits = "";
    this.media = h("video", { playsinline: true });
    this.frame = h("div", { class: "frame waiting" }, this.media);
    this.title = h("h1", {});
    this.what = h("p", { class: "what", role: "status" });
    this.then = h("p", { class: "quiet why" });
    this.status = h("p", { class: "why", role: "status" });
    this.share = h("div", {});
    this.notice = h("p", { class: "notice", role: "alert", hidden: true });
    this.number = h("p", { class: "digits", "aria-live": "assertive", hidden: true });
    this.list = h("ol", { class: "panel chapters", "aria-label": TEXT.channels, hidden: true });
    this.lines = h("dl", { class: "panel stats", hidden: true });
    this.recording = h("span", {});
    this.skipButton = h("button", { type: "button", hidden: true, onclick: () => this.skip() }, TEXT.skipProgramme);
    api.me().then(({ user }) => {
      this.admin = user.role === "admin";
      this.show();
    }).catch(() => {});
    this.liveButton = h("button", { type: "button", hidden: true, onclick: () => this.tune(this.index) }, TEXT.live);
    this.screen = h("div", { class: "player tv" }, this.frame,
      h("div", { class: "over top" }, h("div", { class: "heading" },
        h("a", { class: "back", href: "#/guide", "aria-label": TEXT.guide }, icon("back")), this.title)),
      this.notice, this.number, this.list, this.lines,
      h("div", { class: "over bottom" }, this.what, h("div", { class: "line-share" }, this.share), this.then, this.status,
        h("div", { class: "desk" }, h("div", { class: "buttons" },
          iconButton("down", TEXT.channelDown, () => this.step(-1)),
          iconButton("up", TEXT.channelUp, () => this.step(1), { "data-first": true }),
          iconButton("undo", TEXT.lastChannel, () => this.last()),
          iconButton("start", TEXT.startOver, () => this.tune(this.index, { fromStart: true })), this.liveButton, this.skipButton),
        h("div", { class: "buttons" },
          this.recording, iconButton("list", TEXT.channels, () => this.panel(this.list)),
          iconButton("gauge", TEXT.stats, () => this.panel(this.lines)),
          iconButton("full", TEXT.full, () => (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen?.()))))));
    stage.replaceChildren(this.screen);
    for (const name of ["pointermove", "pointerdown", "focusin"]) this.screen.addEventListener(name, () => this.wake());
    this.media.addEventListener("waiting", () => this.frame.classList.add("waiting"));
    for (const name of ["playing", "pause"]) {
      this.media.addEventListener(name, () => {
        this.frame.classList.remove("waiting");
        this.status.textContent = "";
      });
    }
    this.ticking = setInterval(() => this.tick(), 1000);
  }

  /** Goes to a channel: its name is there at once, its picture as soon as it comes. */
  async tune(index, { fromStart = false } = {}) {
    const mine = ++this.turn;
    this.abort?.abort();
    this.abort = new AbortController();
    // The one that is left gives its place to convert up at once.
    if (this.index !== undefined && index !== this.index) api.untune(this.channels[this.index].id, this.session);
    this.index = index;
    const channel = this.channels[index];
    this.letGo();
    this.letGo = () => {};
    this.notice.hidden = true;
    const comes = (text) => {
      if (mine === this.turn) this.status.textContent = text;
    };
    comes(TEXT.starting(channel.name));
    this.frame.classList.add("waiting");
    this.behind = fromStart;
    this.liveButton.hidden = !fromStart;
    remembered.put(channel.id);
    history.replaceState(null, "", watchLink(channel.id));
    this.show();
    this.wake();
    try {
      const query = { watchSession: this.session, ...(fromStart && { fromStart: 1 }) };
      let why = null;
      const waits = (error) => {
        why = error && waiting(error);
        comes(why ?? TEXT.starting(channel.name));
      };
      const so = (seconds) => comes(why ?? TEXT.startingSince(channel.name, seconds));
      const url = await since(so, api.tune(channel.id, query, waits, this.abort.signal));
      if (mine !== this.turn) return;
      const letGo = await attachLive(this.media, url, { fromStart }, (failure) => this.broken(mine, failure));
      if (mine !== this.turn) {
        letGo();
        return;
      }
      this.letGo = letGo;
      await this.media.play().catch(() => {});
    } catch (error) {
      if (mine === this.turn && error.name !== "AbortError") this.fail(explain(error));
    }
  }

  /** What plays has broken off: once more after a while, as often as it takes, but said. */
  broken(turn, { detail, kind }) {
    if (turn !== this.turn) return;
    this.fail(`${TEXT.starting(this.channels[this.index].name)} (${detail ?? kind})`);
    this.again = setTimeout(() => turn === this.turn && this.tune(this.index, { fromStart: this.behind }), 3000);
  }

  fail(text) {
    this.frame.classList.remove("waiting");
    this.status.textContent = "";
    this.notice.textContent = text;
    this.notice.hidden = false;
    this.wake();
  }

  show() {
    const { id, number, name, now, next, onDemand } = this.channels[this.index];
    document.title = `${name} – Hearthcast`;
    this.title.textContent = `${number} ${name}`;
    this.what.textContent = now ? `${now.title} · ${time(now.start)}–${time(now.end)}` : TEXT.nothingOn;
    this.then.textContent = next ? `${time(next.start)} ${TEXT.then(next.title)}` : "";
    this.skipButton.hidden = !this.admin || !onDemand || !now;
    // When something is on again is known of no channel on demand: nothing of it is recorded.
    const recordable = this.admin && !onDemand ? now : null;
    if (this.recordable !== recordable?.id) {
      this.recordable = recordable?.id;
      this.recording.replaceChildren(...(recordable ? [recordButton(id, recordable)] : []));
    }
    const share = now ? (Date.now() - Date.parse(now.start)) / (Date.parse(now.end) - Date.parse(now.start)) : 0;
    this.share.style.setProperty("width", `${Math.min(100, Math.max(0, share * 100))}%`);
  }

  /** Every second: the line moves, and what has ended gives way. */
  async tick() {
    this.show();
    if (!this.lines.hidden) this.lines.replaceChildren(...figures(this.figures()));
    const { id, now, onDemand } = this.channels[this.index];
    const waited = Date.now() - (this.asked ?? 0);
    const due = onDemand ? waited > ON_DEMAND_MS : now ? Date.now() > Date.parse(now.end) : waited > 30_000;
    if (!due || waited < 5000) return;
    this.asked = Date.now();
    if (onDemand) {
      await api.onNow(id).then((on) => this.note(id, on), () => {});
      return;
    }
    const { channels } = await api.channels({}).catch(() => ({ channels: [] }));
    const index = channels.findIndex((channel) => channel.id === this.channels[this.index].id);
    if (index >= 0) [this.channels, this.index] = [channels, index];
  }

  /** Notes what is on a channel now. */
  note(id, { current, next }) {
    Object.assign(this.channels.find((channel) => channel.id === id) ?? {}, { now: current?.entry ?? null, next });
    this.show();
  }

  /** Goes on with what comes next, for everybody who watches. */
  async skip() {
    const mine = this.turn;
    const { id } = this.channels[this.index];
    this.notice.hidden = true;
    try {
      const on = await api.skipProgramme(id);
      this.note(id, on);
      if (mine !== this.turn || !on.current) return;
      if (this.behind) {
        await this.tune(this.index);
        return;
      }
      const text = TEXT.skippedTo(on.current.entry.title);
      this.status.textContent = text;
      this.wake();
      setTimeout(() => {
        if (this.status.textContent === text) this.status.textContent = "";
      }, SKIPPED_MS);
    } catch (error) {
      if (mine === this.turn) this.fail(explain(error));
    }
  }

  figures() {
    const { media } = this;
    const frames = media.getVideoPlaybackQuality();
    const ahead = media.buffered.length ? media.buffered.end(media.buffered.length - 1) - media.currentTime : 0;
    const edge = media.seekable.length ? media.seekable.end(media.seekable.length - 1) - media.currentTime : null;
    return [
      ["Picture", media.videoWidth > 0 && `${media.videoWidth}×${media.videoHeight}`],
      ["Buffered", `${ahead.toFixed(1)} s`],
      ["Behind the newest", edge !== null && `${edge.toFixed(1)} s`],
      ["Frames dropped", `${frames.droppedVideoFrames} of ${frames.totalVideoFrames}`],
      ["Channel", this.channels[this.index].state],
      ["Watched by", this.channels[this.index].viewers > 0 && String(this.channels[this.index].viewers)],
    ];
  }

  step(by) {
    this.tune((this.index + by + this.channels.length) % this.channels.length);
  }

  last() {
    const [, before] = remembered.get();
    const index = this.channels.findIndex(({ id }) => id === before);
    if (index >= 0) this.tune(index);
  }

  /** One more digit of a number; after a pause it is gone to. */
  digit(figure) {
    this.digits = (this.digits + figure).slice(-5);
    this.number.textContent = this.digits;
    this.number.hidden = false;
    clearTimeout(this.dialling);
    this.dialling = setTimeout(() => this.dial(), DIGITS_MS);
  }

  dial() {
    clearTimeout(this.dialling);
    const wanted = Number(this.digits);
    this.digits = "";
    const index = this.channels.findIndex(({ number }) => number === wanted);
    if (index < 0) {
      this.number.textContent = TEXT.noSuchChannel(wanted);
      this.dialling = setTimeout(() => { this.number.hidden = true; }, DIGITS_MS);
      return;
    }
    this.number.hidden = true;
    this.tune(index);
  }

  panel(panel) {
    const open = panel.hidden;
    this.list.hidden = true;
    this.lines.hidden = true;
    panel.hidden = !open;
    if (!open) return;
    if (panel === this.lines) {
      this.lines.replaceChildren(...figures(this.figures()));
      return;
    }
    this.list.replaceChildren(...this.channels.map(({ number, name, now }, index) => h("li", {},
      h("button", { type: "button", class: "chapter", "aria-current": index === this.index ? "true" : null, onclick: () => {
        this.list.hidden = true;
        this.tune(index);
      } }, h("span", {}, `${number} ${name}`), h("span", { class: "quiet" }, now?.title)))));
    focus(this.list.querySelector("[aria-current]"));
  }

  wake() {
    this.screen.classList.remove("idle");
    clearTimeout(this.hiding);
    this.hiding = setTimeout(() => {
      if (!this.notice.hidden || !this.list.hidden || this.media.paused || this.status.textContent) return;
      this.screen.classList.add("idle");
      if (this.screen.contains(document.activeElement)) document.activeElement.blur();
    }, HIDE_AFTER_MS);
  }

  key(name) {
    const away = this.screen.classList.contains("idle");
    const inside = this.screen.contains(document.activeElement) && document.activeElement !== document.body;
    const listed = !this.list.hidden;
    if (/^[0-9]$/.test(name)) {
      this.digit(name);
      return true;
    }
    const act = {
      ChannelUp: () => this.step(1), PageUp: () => this.step(1), ChannelDown: () => this.step(-1), PageDown: () => this.step(-1),
      LastChannel: () => this.last(), l: () => this.last(), i: () => this.panel(this.lines), g: () => this.panel(this.list),
      MediaStop: () => history.back(),
      ...(name === "Enter" && this.digits && { Enter: () => this.dial() }),
      ...(away && !listed && {
        ArrowUp: () => this.step(1), ArrowDown: () => this.step(-1), ArrowLeft: () => this.panel(this.list),
        ArrowRight: () => this.wake(), Enter: () => focus(this.screen.querySelector("[data-first]")),
      }),
      ...(listed && name === "Back" && { Back: () => this.panel(this.list) }),
      ...(!listed && !this.lines.hidden && name === "Back" && { Back: () => this.panel(this.lines) }),
    }[name];
    if (act) {
      this.wake();
      act();
      return true;
    }
    if (!name.startsWith("Arrow")) return false;
    this.wake();
    return inside ? move(name, listed ? this.list : this.screen) || true : focus(this.screen.querySelector("[data-first]"));
  }

  close(how) {
    this.turn += 1;
    this.abort?.abort();
    for (const timer of [this.hiding, this.dialling, this.again]) clearTimeout(timer);
    clearInterval(this.ticking);
    this.letGo();
    if (!how?.leaving) api.untune(this.channels[this.index].id, this.session);
  }
}
