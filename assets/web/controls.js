// What lies over a picture that plays: it comes with any press and goes again while nothing is pressed.

import { at } from "./api.js";
import { h, icon, iconButton } from "./dom.js";
import { focus, focusable, move } from "./keys.js";
import { TEXT, clock } from "./strings.js";
import { timeline } from "./timeline.js";

const HIDE_AFTER_MS = 4000;

/** A sheet of names and values. */
export const figures = (lines) => lines.filter(([, value]) => value)
  .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));

export class Controls {
  /** `seek(position)` moves; `stats()` gives lines of `[name, value]`, or a promise of them. */
  constructor({ title, up, upLabel, seek, stats }) {
    this.seekTo = seek;
    this.statsOf = stats;
    this.title = h("h1", {}, title);
    this.reason = h("p", { class: "quiet why", role: "status" });
    this.notice = h("p", { class: "notice", role: "alert", hidden: true });
    this.frame = h("div", { class: "frame waiting" });
    this.line = timeline(seek);
    this.button = iconButton("play", TEXT.play, () => this.toggle(), { "data-first": true, "data-key": "play" });
    this.menus = h("div", { class: "menus" });
    this.offered = h("div", { class: "offer" });
    this.chapters = h("ol", { class: "chapters panel", "aria-label": TEXT.chapters, hidden: true });
    this.lines = h("dl", { class: "stats panel", hidden: true });
    this.chapterButton = iconButton("list", TEXT.chapters, () => this.panel(this.chapters), { hidden: true });
    const full = () => (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen?.());
    this.extra = h("div", { class: "buttons extra" });
    this.element = h("div", { class: "player" },
      this.frame,
      h("div", { class: "over top" },
        h("div", { class: "heading" }, h("a", { class: "back", href: up, "aria-label": upLabel }, icon("back")), this.title),
        this.reason),
      this.notice, this.offered, this.chapters, this.lines,
      h("div", { class: "over bottom" },
        this.line.element,
        h("div", { class: "desk" },
          h("div", { class: "buttons" },
            this.before = iconButton("previous", TEXT.previousChapter, () => this.chapter(-1), { hidden: true }),
            iconButton("rewind", TEXT.rewind, () => this.jump(-10)),
            this.button,
            iconButton("forward", TEXT.forward, () => this.jump(30)),
            this.after = iconButton("next", TEXT.nextChapter, () => this.chapter(1), { hidden: true })),
          this.extra,
          this.menus,
          h("div", { class: "buttons" }, this.chapterButton,
            iconButton("gauge", TEXT.stats, () => this.panel(this.lines)), iconButton("full", TEXT.full, full)))));
    for (const name of ["pointermove", "pointerdown", "focusin"]) this.element.addEventListener(name, () => this.wake());
    this.frame.addEventListener("click", () => this.toggle());
    this.list = [];
    this.wake();
  }

  /** Shows what plays and what can be chosen. */
  fit({ media, title, chapters, duration, menus }) {
    this.media = media;
    if (title) this.title.textContent = title;
    const picture = media.tagName === "VIDEO";
    this.element.classList.toggle("sound", !picture);
    this.frame.replaceChildren(...(picture ? [media] : [h("img", { src: at("/web/logo.svg"), alt: "" }), media]));
    media.addEventListener("waiting", () => this.wait(true));
    for (const name of ["playing", "pause", "error", "seeked", "canplay"]) media.addEventListener(name, () => this.wait(false));
    for (const name of ["play", "pause", "ended"]) media.addEventListener(name, () => this.state());
    media.addEventListener("timeupdate", () => this.show());
    media.textTracks.addEventListener("change", () => this.wake());
    media.addEventListener("durationchange", () => this.show());
    this.list = chapters;
    this.line.mark(chapters.map(({ startSeconds }) => startSeconds), duration ?? 0);
    for (const part of [this.chapterButton, this.before, this.after]) part.hidden = chapters.length < 2;
    this.chapters.replaceChildren(...chapters.map(({ title: name, startSeconds, index }) => h("li", {},
      h("button", { type: "button", class: "chapter", onclick: () => this.seekTo(startSeconds) },
        h("span", {}, name ?? TEXT.chapter(index + 1)), h("span", { class: "quiet" }, clock(startSeconds))))));
    if (!picture && chapters.length > 1) this.chapters.hidden = false;
    this.menus.replaceChildren(...menus.filter(Boolean));
    this.state();
  }

  show() {
    const { currentTime, duration } = this.media;
    this.line.update(currentTime, Number.isFinite(duration) ? duration : 0);
  }

  state() {
    const plays = this.media && !this.media.paused;
    this.button.replaceChildren(icon(plays ? "pause" : "play"));
    this.button.setAttribute("aria-label", plays ? TEXT.pause : TEXT.play);
    this.button.title = plays ? TEXT.pause : TEXT.play;
    this.wake();
  }

  why(text) {
    this.reason.textContent = text;
  }

  /** Says what is wrong; null when nothing is. */
  say(text) {
    this.notice.textContent = text ?? "";
    this.notice.hidden = !text;
    if (text) this.wake();
  }

  wait(waiting) {
    this.frame.classList.toggle("waiting", waiting);
  }

  /** Offers one thing to do; null takes it away. */
  offer(text, act, kind) {
    const there = this.offered.firstChild;
    if (!text) {
      if (there) this.offered.replaceChildren();
      return;
    }
    if (there?.dataset.key === kind) {
      if (there.textContent !== text) there.textContent = text;
      return;
    }
    this.offered.replaceChildren(h("button", { type: "button", class: "primary", "data-key": kind, onclick: act }, text));
    if (this.element.classList.contains("idle")) focus(this.offered.firstChild);
  }

  toggle() {
    if (!this.media) return;
    if (this.media.paused) this.media.play().catch(() => {});
    else this.media.pause();
  }

  jump(seconds) {
    if (this.media) this.seekTo(this.media.currentTime + seconds);
  }

  /** To another chapter; back goes to the beginning of this one first. */
  chapter(step) {
    const at = this.media.currentTime;
    const here = this.list.findLastIndex(({ startSeconds }) => startSeconds <= at + 0.01);
    const begun = here >= 0 && at - this.list[here].startSeconds > 3;
    const wanted = this.list[step < 0 && begun ? here : here + step];
    if (wanted) this.seekTo(wanted.startSeconds);
  }

  /** Opens one panel, or closes it. */
  panel(panel) {
    const open = panel.hidden;
    for (const other of [this.chapters, this.lines]) other.hidden = true;
    panel.hidden = !open;
    clearInterval(this.counting);
    if (open && panel === this.lines) {
      const count = async () => {
        this.lines.replaceChildren(...figures(await this.statsOf()));
      };
      count();
      this.counting = setInterval(count, 1000);
    } else if (open) focus(focusable(panel)[0]);
  }

  /** Shows everything, and hides it again after a while. */
  wake() {
    this.element.classList.remove("idle");
    this.lift(true);
    clearTimeout(this.hiding);
    this.hiding = setTimeout(() => this.hide(), HIDE_AFTER_MS);
  }

  hide() {
    const busy = !this.media || this.media.paused || this.element.classList.contains("sound")
      || !this.notice.hidden || !this.chapters.hidden || document.activeElement?.tagName === "SELECT";
    if (busy) return;
    this.element.classList.add("idle");
    this.lift(false);
    if (this.element.contains(document.activeElement)) document.activeElement.blur();
  }

  /** Keeps subtitles that say nothing of their place clear of what lies over the picture. */
  lift(high) {
    for (const track of this.media?.textTracks ?? []) {
      for (const cue of track.cues ?? []) {
        if (cue.line === "auto" || cue.lifted) [cue.line, cue.lifted] = high ? [-6, true] : ["auto", false];
      }
    }
  }

  key(name) {
    const away = this.element.classList.contains("idle");
    const onButton = document.activeElement?.matches("button, a, select") && this.element.contains(document.activeElement);
    if (name === "Back") {
      const panel = [this.chapters, this.lines].find(({ hidden }) => !hidden);
      if (!panel || this.element.classList.contains("sound")) return false;
      this.panel(panel);
      return true;
    }
    const act = {
      Space: () => this.toggle(), k: () => this.toggle(), MediaPlayPause: () => this.toggle(),
      MediaPlay: () => this.media?.play().catch(() => {}), MediaPause: () => this.media?.pause(),
      MediaStop: () => history.back(), MediaRewind: () => this.jump(-10), MediaFastForward: () => this.jump(30),
      PageUp: () => this.chapter(-1), PageDown: () => this.chapter(1),
      f: () => (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen?.()),
      m: () => { if (this.media) this.media.muted = !this.media.muted; },
      i: () => this.panel(this.lines),
    }[name];
    if (act && !(name === "Space" && onButton)) {
      this.wake();
      act();
      return true;
    }
    if (away && (name === "ArrowLeft" || name === "ArrowRight")) {
      this.jump(name === "ArrowLeft" ? -10 : 30);
      this.wake();
      return true;
    }
    if (name.startsWith("Arrow") || name === "Enter") {
      this.wake();
      if (away || !onButton && document.activeElement !== this.line.slider) return focus(this.button);
      return name === "Enter" ? false : move(name, this.element) || true;
    }
    return false;
  }

  close() {
    clearTimeout(this.hiding);
    clearInterval(this.counting);
  }
}
