// The overlay of the player: shown on any input, hidden after a while without.

import { resolvePath } from "./api.js";
import { h, icon, iconButton } from "./dom.js";
import { findFocusable, focus, moveFocus } from "./keys.js";
import { TEXT, formatClock } from "./strings.js";
import { timeline } from "./timeline.js";

const HIDE_AFTER_MS = 4000;

/** Definition list entries for `[name, value]` pairs; pairs without a value are left out. */
export const statsEntries = (pairs) => pairs.filter(([, value]) => value)
  .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));

export class Controls {
  /** `onSeek(position)` moves playback; `getStats()` returns `[name, value]` pairs, or a promise of them. */
  constructor({ title, backUrl, backLabel, onSeek, getStats }) {
    this.onSeek = onSeek;
    this.getStats = getStats;
    this.title = h("h1", {}, title);
    this.statusLine = h("p", { class: "muted status-line", role: "status" });
    this.notice = h("p", { class: "notice", role: "alert", hidden: true });
    this.frame = h("div", { class: "frame waiting" });
    this.timeline = timeline(onSeek);
    this.playButton = iconButton("play", TEXT.play, () => this.togglePlayback(), { "data-first": true, "data-key": "play" });
    this.menus = h("div", { class: "menus" });
    this.suggestionBox = h("div", { class: "suggestion" });
    this.chapterPanel = h("ol", { class: "chapters panel", "aria-label": TEXT.chapters, hidden: true });
    this.statsPanel = h("dl", { class: "stats panel", hidden: true });
    this.chapterButton = iconButton("list", TEXT.chapters, () => this.togglePanel(this.chapterPanel), { hidden: true });
    const toggleFullScreen = () => (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen?.());
    this.extraButtons = h("div", { class: "buttons extra" });
    this.element = h("div", { class: "player" },
      this.frame,
      h("div", { class: "overlay top" },
        h("div", { class: "heading" }, h("a", { class: "back", href: backUrl, "aria-label": backLabel }, icon("back")), this.title),
        this.statusLine),
      this.notice, this.suggestionBox, this.chapterPanel, this.statsPanel,
      h("div", { class: "overlay bottom" },
        this.timeline.element,
        h("div", { class: "control-bar" },
          h("div", { class: "buttons" },
            this.previousButton = iconButton("previous", TEXT.previousChapter, () => this.stepChapter(-1), { hidden: true }),
            iconButton("rewind", TEXT.rewind, () => this.seekBy(-10)),
            this.playButton,
            iconButton("forward", TEXT.forward, () => this.seekBy(30)),
            this.nextButton = iconButton("next", TEXT.nextChapter, () => this.stepChapter(1), { hidden: true })),
          this.extraButtons,
          this.menus,
          h("div", { class: "buttons" }, this.chapterButton,
            iconButton("gauge", TEXT.playbackInfo, () => this.togglePanel(this.statsPanel)), iconButton("full", TEXT.fullScreen, toggleFullScreen)))));
    for (const name of ["pointermove", "pointerdown", "focusin"]) this.element.addEventListener(name, () => this.showOverlay());
    // A tap only shows the overlay.
    this.frame.addEventListener("click", ({ pointerType }) => pointerType !== "touch" && this.togglePlayback());
    this.chapters = [];
    this.showOverlay();
  }

  /** Shows a media element with its chapters and menus. */
  setMedia({ media, title, chapters, duration, menus }) {
    this.media = media;
    if (title) this.title.textContent = title;
    const isVideo = media.tagName === "VIDEO";
    this.element.classList.toggle("audio-only", !isVideo);
    this.frame.replaceChildren(...(isVideo ? [media] : [h("img", { src: resolvePath("/web/logo.svg"), alt: "" }), media]));
    media.addEventListener("waiting", () => this.setWaiting(true));
    for (const name of ["playing", "pause", "error", "seeked", "canplay"]) media.addEventListener(name, () => this.setWaiting(false));
    for (const name of ["play", "pause", "ended"]) media.addEventListener(name, () => this.updatePlayButton());
    media.addEventListener("timeupdate", () => this.updateTimeline());
    media.textTracks.addEventListener("change", () => this.showOverlay());
    media.addEventListener("durationchange", () => this.updateTimeline());
    this.chapters = chapters;
    this.timeline.setMarks(chapters.map(({ startSeconds }) => startSeconds), duration ?? 0);
    for (const button of [this.chapterButton, this.previousButton, this.nextButton]) button.hidden = chapters.length < 2;
    this.chapterPanel.replaceChildren(...chapters.map(({ title: name, startSeconds, index }) => h("li", {},
      h("button", { type: "button", class: "chapter", onclick: () => this.onSeek(startSeconds) },
        h("span", {}, name ?? TEXT.chapter(index + 1)), h("span", { class: "muted" }, formatClock(startSeconds))))));
    if (!isVideo && chapters.length > 1) this.chapterPanel.hidden = false;
    this.menus.replaceChildren(...menus.filter(Boolean));
    this.updatePlayButton();
  }

  updateTimeline() {
    const { currentTime, duration } = this.media;
    this.timeline.update(currentTime, Number.isFinite(duration) ? duration : 0);
  }

  updatePlayButton() {
    const isPlaying = this.media && !this.media.paused;
    this.playButton.replaceChildren(icon(isPlaying ? "pause" : "play"));
    this.playButton.setAttribute("aria-label", isPlaying ? TEXT.pause : TEXT.play);
    this.playButton.title = isPlaying ? TEXT.pause : TEXT.play;
    this.showOverlay();
  }

  showStatus(text) {
    this.statusLine.textContent = text;
  }

  /** Shows an error; null hides it. */
  showNotice(text) {
    this.notice.textContent = text ?? "";
    this.notice.hidden = !text;
    if (text) this.showOverlay();
  }

  setWaiting(isWaiting) {
    this.frame.classList.toggle("waiting", isWaiting);
  }

  /** Shows a button over the video, e.g. to skip the intro; null removes it. `key` tells one suggestion from another. */
  showSuggestion(text, action, key) {
    const current = this.suggestionBox.firstChild;
    if (!text) {
      if (current) this.suggestionBox.replaceChildren();
      return;
    }
    if (current?.dataset.key === key) {
      if (current.textContent !== text) current.textContent = text;
      return;
    }
    this.suggestionBox.replaceChildren(h("button", { type: "button", class: "primary", "data-key": key, onclick: action }, text));
    if (this.element.classList.contains("idle")) focus(this.suggestionBox.firstChild);
  }

  togglePlayback() {
    if (!this.media) return;
    if (this.media.paused) this.media.play().catch(() => {});
    else this.media.pause();
  }

  seekBy(seconds) {
    if (this.media) this.onSeek(this.media.currentTime + seconds);
  }

  /** Goes to the next or previous chapter; back first goes to the start of the current one. */
  stepChapter(step) {
    const position = this.media.currentTime;
    const current = this.chapters.findLastIndex(({ startSeconds }) => startSeconds <= position + 0.01);
    const hasStarted = current >= 0 && position - this.chapters[current].startSeconds > 3;
    const target = this.chapters[step < 0 && hasStarted ? current : current + step];
    if (target) this.onSeek(target.startSeconds);
  }

  /** Opens a panel and closes the other, or closes it if it is open. */
  togglePanel(panel) {
    const isOpening = panel.hidden;
    for (const other of [this.chapterPanel, this.statsPanel]) other.hidden = true;
    panel.hidden = !isOpening;
    clearInterval(this.statsTimer);
    if (isOpening && panel === this.statsPanel) {
      const updateStats = async () => {
        this.statsPanel.replaceChildren(...statsEntries(await this.getStats()));
      };
      updateStats();
      this.statsTimer = setInterval(updateStats, 1000);
    } else if (isOpening) focus(findFocusable(panel)[0]);
  }

  /** Shows the overlay, and hides it after a while. */
  showOverlay() {
    this.element.classList.remove("idle");
    this.liftSubtitles(true);
    clearTimeout(this.hideTimer);
    this.hideTimer = setTimeout(() => this.hideOverlay(), HIDE_AFTER_MS);
  }

  hideOverlay() {
    const mustStay = !this.media || this.media.paused || this.element.classList.contains("audio-only")
      || !this.notice.hidden || !this.chapterPanel.hidden || document.activeElement?.tagName === "SELECT";
    if (mustStay) return;
    this.element.classList.add("idle");
    this.liftSubtitles(false);
    if (this.element.contains(document.activeElement)) document.activeElement.blur();
  }

  /** Places new subtitles above the overlay if it is shown. */
  placeSubtitles() {
    if (!this.element.classList.contains("idle")) this.liftSubtitles(true);
  }

  /** Moves subtitles without a position of their own above the overlay, or back. */
  liftSubtitles(isLifted) {
    for (const track of this.media?.textTracks ?? []) {
      for (const cue of track.cues ?? []) {
        if (cue.line === "auto" || cue.lifted) [cue.line, cue.lifted] = isLifted ? [-6, true] : ["auto", false];
      }
    }
  }

  handleKey(name) {
    const isHidden = this.element.classList.contains("idle");
    const isOnButton = document.activeElement?.matches("button, a, select") && this.element.contains(document.activeElement);
    if (name === "Back") {
      const panel = [this.chapterPanel, this.statsPanel].find(({ hidden }) => !hidden);
      if (!panel || this.element.classList.contains("audio-only")) return false;
      this.togglePanel(panel);
      return true;
    }
    const action = {
      Space: () => this.togglePlayback(), k: () => this.togglePlayback(), MediaPlayPause: () => this.togglePlayback(),
      MediaPlay: () => this.media?.play().catch(() => {}), MediaPause: () => this.media?.pause(),
      MediaStop: () => history.back(), MediaRewind: () => this.seekBy(-10), MediaFastForward: () => this.seekBy(30),
      PageUp: () => this.stepChapter(-1), PageDown: () => this.stepChapter(1),
      f: () => (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen?.()),
      m: () => { if (this.media) this.media.muted = !this.media.muted; },
      i: () => this.togglePanel(this.statsPanel),
    }[name];
    if (action && !(name === "Space" && isOnButton)) {
      this.showOverlay();
      action();
      return true;
    }
    if (isHidden && (name === "ArrowLeft" || name === "ArrowRight")) {
      this.seekBy(name === "ArrowLeft" ? -10 : 30);
      this.showOverlay();
      return true;
    }
    if (name.startsWith("Arrow") || name === "Enter") {
      this.showOverlay();
      if (isHidden || !isOnButton && document.activeElement !== this.timeline.slider) return focus(this.playButton);
      return name === "Enter" ? false : moveFocus(name, this.element) || true;
    }
    return false;
  }

  close() {
    clearTimeout(this.hideTimer);
    clearInterval(this.statsTimer);
  }
}
