// The control set of films, live TV, music and books: shown on any input, hidden after a while without.

import { FORWARD_SECONDS, REWIND_SECONDS, handleControlKey } from "./control-keys.js";
import { h, icon, iconButton, tint } from "./dom.js";
import { formatClock } from "./format.js";
import { listenForGestures } from "./gestures.js";
import { focus } from "./keys.js";
import { clearMediaSession, setMediaSession, updateMediaSession } from "./media-session.js";
import { Panels, infoEntries } from "./panels.js";
import { TEXT } from "./strings.js";
import { SubtitleView } from "./subtitle-view.js";
import { subtitleLookGroups } from "./subtitle-look.js";
import { timeline } from "./timeline.js";
import { Volume } from "./volume.js";

const HIDE_AFTER_MS = 3500;

/** How long the result of a key or a gesture is shown, ms. */
const BUBBLE_MS = 900;

/** What a double tap jumps, seconds. */
const TAP_SECONDS = 10;

/**
 * A media element, with what only video or only Safari has.
 * @typedef {HTMLMediaElement & Partial<Pick<HTMLVideoElement, "requestPictureInPicture">> & {
 *   webkitShowPlaybackTargetPicker?: () => void, webkitSetPresentationMode?: (mode: string) => void, webkitEnterFullscreen?: () => void,
 * }} PlayedElement
 *
 * @typedef {object} ControlsOptions
 * @property {string} title
 * @property {string} backUrl
 * @property {string} backLabel
 * @property {(position: number, options?: { isStep: boolean }) => void} onSeek  moves playback, on the scale of `getTimes`
 * @property {() => Array<Array<string | false>> | Promise<Array<Array<string | false>>>} getInfo  the playback info
 * @property {() => string} getAddress  the address of the screen, which the mini player links to
 * @property {() => import("./timeline.js").Times} [getTimes]  by default those of the media element
 * @property {object} [timelineOptions]
 * @property {string[][]} [keyList]  the shortcuts that `?` shows
 * @property {Record<string, () => void>} [keys]  further keys
 * @property {() => void} [play]  by default that of the media element
 */

export class Controls {
  /** @param {ControlsOptions} options */
  constructor(options) {
    this.options = options;
    /** @type {PlayedElement | null} */
    this.media = null;
    this.isMinimised = false; // By its button, so that video continues too.
    this.title = h("h1", {}, options.title);
    this.line = h("p", { class: "line" });
    this.statusLine = h("p", { class: "muted status-line", role: "status" });
    this.notice = h("p", { class: "notice", role: "alert", hidden: true });
    this.bubble = h("p", { class: "bubble", role: "status" });
    this.frame = h("div", { class: "frame waiting" });
    this.subtitles = new SubtitleView();
    this.volume = new Volume((text) => this.showBubble(text));
    this.timeline = timeline((position) => options.onSeek(position), options.timelineOptions);
    // In the row, in the middle for fingers, and in the mini player.
    this.playButtons = [{ "data-first": true, "data-key": "play" }, {}, {}].map((attributes) => iconButton("play", TEXT.play, () => this.togglePlayback(), attributes));
    this.banner = h("div", { class: "banner" });
    this.leading = h("div", { class: "buttons" });
    this.extraButtons = h("div", { class: "buttons extra" });
    this.suggestionBox = h("div", { class: "suggestion" });
    this.method = h("p", { class: "muted method" });
    this.panels = new Panels(() => this.showOverlay());
    this.createPanels();
    // Until the first input, the kind of device tells which buttons fit.
    const isTouch = matchMedia("(hover: none) and (pointer: coarse)").matches && navigator.maxTouchPoints > 0;
    this.element = h("div", { class: isTouch ? "player touch" : "player" }, this.frame, this.subtitles.element, ...this.createOverlay(), this.createMiniBar());
    for (const name of ["pointermove", "pointerdown", "focusin"]) this.element.addEventListener(name, (event) => this.onInput(event));
    listenForGestures(this.frame, {
      tap: () => (this.isIdle() ? this.showOverlay() : this.hideOverlay({ isRequested: true })),
      jump: (direction) => this.jumpBy(direction * TAP_SECONDS),
      scrub: (seconds, isFinal) => this.scrubBy(seconds, isFinal),
      volume: (steps) => this.volume.step(steps),
      click: () => this.togglePlayback(),
      fullScreen: () => this.toggleFullScreen(),
    });
    /** @type {Array<{ startSeconds: number, title?: string, index: number }>} */
    this.chapters = [];
    this.showOverlay();
  }

  createPanels() {
    const { panels } = this;
    this.chapterPanel = h("ol", { class: "chapters" });
    this.infoPanel = h("dl", { class: "stats" });
    this.tracksPanel = h("div", { class: "columns" });
    const opener = (name, label) => h("button", { type: "button", class: "text-button", "data-key": name, onclick: () => panels.toggle(name) }, label);
    this.moreButtons = h("div", { class: "buttons more-buttons" }, opener("info", TEXT.playbackInfo), opener("shortcuts", TEXT.shortcuts));
    this.settingsPanel = h("div", { class: "columns" }, this.method, this.moreButtons);
    panels.add("chapters", "chapters", TEXT.chapters, this.chapterPanel, { isHidden: true });
    panels.add("tracks", "subtitles", TEXT.audioAndSubtitles, this.tracksPanel, { isHidden: true });
    panels.add("settings", "settings", TEXT.playbackSettings, this.settingsPanel);
    panels.add("info", "info", TEXT.playbackInfo, this.infoPanel, { refresh: async () => this.infoPanel.replaceChildren(...infoEntries(await this.options.getInfo())) });
    panels.add("shortcuts", "keyboard", TEXT.shortcuts, h("dl", { class: "stats shortcuts" }, ...infoEntries(this.options.keyList ?? TEXT.keys)));
  }

  /** The bars over the video. */
  createOverlay() {
    const { panels } = this;
    const seekButtons = () => [iconButton("rewind", TEXT.rewind, () => this.jumpBy(-REWIND_SECONDS)), iconButton("forward", TEXT.forward, () => this.jumpBy(FORWARD_SECONDS))];
    const [[rewind, forward], [largeRewind, largeForward]] = [seekButtons(), seekButtons()];
    this.chapterButtons = [iconButton("previous", TEXT.previousChapter, () => this.stepChapter(-1), { hidden: true }),
      iconButton("next", TEXT.nextChapter, () => this.stepChapter(1), { hidden: true })];
    this.pipButton = iconButton("pip", TEXT.pictureInPicture, () => this.togglePictureInPicture(), { hidden: true });
    this.airPlayButton = iconButton("airplay", TEXT.airPlay, () => this.media?.webkitShowPlaybackTargetPicker?.(), { hidden: true });
    this.fullScreenButton = iconButton("full", TEXT.fullScreen, () => this.toggleFullScreen(), { "data-key": "full" });
    this.transport = h("div", { class: "buttons transport" }, this.chapterButtons[0], rewind, this.playButtons[0], forward, this.chapterButtons[1]);
    return [
      h("div", { class: "overlay top" },
        h("div", { class: "heading" }, h("a", { class: "back", href: this.options.backUrl, "aria-label": this.options.backLabel }, icon("back")),
          h("div", { class: "titles" }, this.title, this.line),
          iconButton("down", TEXT.minimise, () => this.minimise(), { "data-key": "mini" })),
        this.statusLine),
      h("div", { class: "overlay centre" }, h("div", { class: "buttons" }, largeRewind, this.playButtons[1], largeForward)),
      this.notice, this.bubble, this.suggestionBox, panels.element,
      h("div", { class: "overlay bottom" }, this.banner, this.timeline.element,
        h("div", { class: "control-row" },
          h("div", { class: "buttons start" }, this.leading, this.transport, this.volume.element),
          h("div", { class: "buttons end" }, this.extraButtons, panels.button("chapters"), panels.button("tracks"), panels.button("settings"),
            this.airPlayButton, this.pipButton, this.fullScreenButton))),
    ];
  }

  createMiniBar() {
    this.miniTitle = h("span", { class: "title" });
    this.miniLink = h("a", { class: "mini-link", href: "#/", title: TEXT.expand }, h("span", { class: "visually-hidden" }, `${TEXT.expand}: `), this.miniTitle);
    return h("div", { class: "mini-bar" }, this.miniLink, this.playButtons[2],
      iconButton("close", TEXT.closePlayer, () => this.element.dispatchEvent(new Event("dismiss", { bubbles: true }))));
  }

  /**
   * Shows a media element and its chapters; again when the next file of a book plays.
   * @param {{ media: PlayedElement, title?: string, artist?: string, album?: string, artwork?: string, chapters?: any[], duration?: number,
   *   previewsUrl?: string | null, fallbackIcon?: string }} options
   */
  setMedia({ media, title, artist, album, artwork, chapters = [], duration = 0, previewsUrl = null, fallbackIcon = "audio" }) {
    this.listening?.abort();
    this.listening = new AbortController();
    this.media = media;
    if (title) this.title.textContent = title;
    const isVideo = media.tagName === "VIDEO";
    this.element.classList.toggle("audio-only", !isVideo);
    this.frame.replaceChildren(...(isVideo ? [media] : [h("div", { class: "cover", style: tint(this.title.textContent) }, artwork ? h("img", { src: artwork, alt: "", onerror: ({ target }) => target.replaceWith(icon(fallbackIcon)) }) : icon(fallbackIcon)), media]));
    this.listenTo(media);
    this.volume.setMedia(media);
    this.subtitles.setMedia(media);
    this.pipButton.hidden = !isVideo || !(document.pictureInPictureEnabled || media.webkitSetPresentationMode);
    if (chapters !== this.chapters) this.setChapters(chapters, duration); // The parts of a book share them.
    this.timeline.loadPreviews(previewsUrl);
    this.showMetadata({ title: this.title.textContent, artist, album, artwork });
    this.updatePlayButton();
  }

  /** Shows title and artwork on the lock screen, and takes the keys of headsets. */
  showMetadata(metadata) {
    const { keys = {}, getTimes, onSeek } = this.options;
    setMediaSession(this, metadata, {
      play: () => this.play(), pause: () => this.media?.pause(), stop: () => this.media?.pause(),
      seekbackward: ({ seekOffset }) => this.seekBy(-(seekOffset || REWIND_SECONDS)),
      seekforward: ({ seekOffset }) => this.seekBy(seekOffset || FORWARD_SECONDS),
      ...(!getTimes && { seekto: ({ seekTime }) => onSeek(seekTime) }),
      ...(keys.n && { nexttrack: keys.n }),
      ...(keys.ChannelUp && { previoustrack: keys.ChannelDown, nexttrack: keys.ChannelUp }),
      ...(this.chapters.length > 1 && { previoustrack: () => this.stepChapter(-1), nexttrack: () => this.stepChapter(1) }),
    });
  }

  listenTo(media) {
    const on = (names, listener) => {
      for (const name of names) media.addEventListener(name, listener, { signal: this.listening.signal });
    };
    on(["waiting"], () => this.setWaiting(true));
    on(["playing", "pause", "error", "seeked", "canplay"], () => this.setWaiting(false));
    on(["play", "pause", "ended", "ratechange"], () => this.updatePlayButton());
    on(["timeupdate", "durationchange"], () => this.updateTimeline());
    on(["webkitplaybacktargetavailabilitychanged"], ({ availability }) => { this.airPlayButton.hidden = availability !== "available"; });
  }

  setChapters(chapters, duration) {
    this.chapters = chapters;
    this.timeline.setChapters(chapters, duration);
    for (const button of this.chapterButtons) button.hidden = chapters.length < 2;
    this.panels.setHidden("chapters", chapters.length < 2);
    this.chapterPanel.replaceChildren(...chapters.map(({ title, startSeconds, index }) => h("li", {},
      h("button", { type: "button", class: "chapter", "data-key": `chapter-${index}`, onclick: () => this.options.onSeek(startSeconds) },
        h("span", {}, title ?? TEXT.chapter(index + 1)), h("span", { class: "muted" }, formatClock(startSeconds))))));
    this.shownChapter = -1;
  }

  /** Shows the groups of the panel of audio and subtitles; missing ones are left out. */
  setTracks(audio, subtitle) {
    const groups = [audio, subtitle].filter(Boolean);
    this.panels.setHidden("tracks", groups.length === 0);
    this.tracksPanel.replaceChildren(...groups.map(({ element }) => element), ...(subtitle ? subtitleLookGroups(this.subtitles) : []));
  }

  /** Shows the groups of the panel of quality and speed; missing ones are left out. */
  setSettings(...groups) {
    this.settingsPanel.replaceChildren(...groups.filter(Boolean).map(({ element }) => element), this.method, this.moreButtons);
  }

  getTimes() {
    if (this.options.getTimes) return this.options.getTimes();
    const { currentTime, duration } = this.media;
    return { position: currentTime, start: 0, end: Number.isFinite(duration) ? duration : 0 };
  }

  updateTimeline() {
    const times = this.getTimes();
    this.timeline.update(times);
    const chapter = this.chapters.findLastIndex(({ startSeconds }) => startSeconds <= times.position + 0.01);
    if (chapter !== this.shownChapter) {
      this.shownChapter = chapter;
      [...this.chapterPanel.querySelectorAll(".chapter")].forEach((button, n) => {
        if (n === chapter) button.setAttribute("aria-current", "true");
        else button.removeAttribute("aria-current");
      });
    }
    if (performance.now() - (this.sessionUpdatedAt ?? -Infinity) > 1000) this.updateMediaSession(times);
  }

  updateMediaSession(times = this.getTimes()) {
    this.sessionUpdatedAt = performance.now();
    const { paused, playbackRate } = this.media;
    updateMediaSession(this, { isPaused: paused, position: times.position, duration: this.options.timelineOptions ? NaN : times.end, rate: playbackRate });
  }

  updatePlayButton() {
    const isPlaying = this.media && !this.media.paused;
    for (const button of this.playButtons) {
      button.replaceChildren(icon(isPlaying ? "pause" : "play"));
      button.setAttribute("aria-label", isPlaying ? TEXT.pause : TEXT.play);
      button.title = isPlaying ? TEXT.pause : TEXT.play;
    }
    if (this.media) this.updateMediaSession();
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

  /** Shows the result of a key or a gesture for a moment. */
  showBubble(text) {
    this.bubble.textContent = text;
    clearTimeout(this.bubbleTimer);
    this.bubbleTimer = setTimeout(() => { this.bubble.textContent = ""; }, BUBBLE_MS);
  }

  setWaiting(isWaiting) {
    this.frame.classList.toggle("waiting", isWaiting);
  }

  /**
   * Shows a button over the video, e.g. to skip the intro; null removes it. `key` tells one suggestion from another. With
   * `onCancel` there is a second button that refuses it.
   */
  showSuggestion(text, action, key, onCancel) {
    const current = this.suggestionBox.firstChild;
    if (!text) {
      if (current) this.suggestionBox.replaceChildren();
      return;
    }
    if (current?.dataset.key === key) {
      if (current.textContent !== text) current.textContent = text;
      return;
    }
    this.suggestionBox.replaceChildren(h("button", { type: "button", class: "primary", "data-key": key, onclick: action }, text),
      ...(onCancel ? [h("button", { type: "button", onclick: onCancel }, TEXT.cancelNext)] : []));
    if (this.isIdle()) focus(this.suggestionBox.firstChild);
  }

  play() {
    if (this.options.play) this.options.play();
    else this.media?.play().catch(() => {}); // The browser may require a click first.
  }

  togglePlayback() {
    if (this.media && !this.media.paused) this.media.pause();
    else this.play();
  }

  seekBy(seconds) {
    if (this.media) this.options.onSeek(this.getTimes().position + seconds, { isStep: true });
  }

  /** Seeks and shows by how much; presses that follow each other are counted together. */
  jumpBy(seconds) {
    const now = performance.now();
    const isSeries = now - (this.jumpedAt ?? -Infinity) < BUBBLE_MS && Math.sign(seconds) === Math.sign(this.jumped);
    this.jumped = seconds + (isSeries ? this.jumped : 0);
    this.jumpedAt = now;
    this.seekBy(seconds);
    this.showBubble(TEXT.jumped(this.jumped));
  }

  scrubBy(seconds, isFinal) {
    if (!this.media) return;
    const { position, start, end } = this.getTimes();
    const target = Math.min(Math.max(position + seconds, start), end || Infinity);
    this.showBubble(this.options.timelineOptions?.format?.(target) ?? formatClock(target));
    if (isFinal) this.options.onSeek(target);
  }

  /** Goes to the next or previous chapter; back first goes to the start of the current one. */
  stepChapter(step) {
    if (!this.media || this.chapters.length < 2) return;
    const { position } = this.getTimes();
    const index = Math.max(0, this.chapters.findLastIndex(({ startSeconds }) => startSeconds <= position + 0.01));
    const hasStarted = position - this.chapters[index].startSeconds > 3;
    const target = this.chapters[step < 0 && hasStarted ? index : Math.max(0, index + step)];
    if (target) this.options.onSeek(target.startSeconds);
  }

  async toggleFullScreen() {
    if (document.fullscreenElement) return document.exitFullscreen();
    // Phones of Apple have it for the video alone.
    if (!document.documentElement.requestFullscreen) return this.media?.webkitEnterFullscreen?.();
    await document.documentElement.requestFullscreen().catch(() => {});
    if (this.element.classList.contains("touch")) await screen.orientation?.lock?.("landscape").catch(() => {});
  }

  async togglePictureInPicture() {
    if (document.pictureInPictureElement) await document.exitPictureInPicture().catch(() => {});
    else if (this.media?.requestPictureInPicture) await this.media.requestPictureInPicture().catch(() => {});
    else this.media?.webkitSetPresentationMode?.("picture-in-picture");
  }

  /** Continues in a corner while the user browses. */
  minimise() {
    this.isMinimised = true;
    this.element.dispatchEvent(new Event("minimise", { bubbles: true }));
  }

  /** Whether it continues when the screen is left: audio that plays does. */
  keepsPlaying() {
    return this.isMinimised || Boolean(this.media && this.media.tagName === "AUDIO" && !this.media.paused && !this.media.ended);
  }

  setMini(isMini) {
    this.isMinimised = false;
    this.panels.close();
    this.miniTitle.textContent = [this.title.textContent, this.line.textContent].filter(Boolean).join(" · ");
    this.miniLink.href = this.options.getAddress();
    this.element.classList.toggle("is-mini", isMini);
    if (!isMini) this.showOverlay();
  }

  onInput(event) {
    if (event.type === "pointerdown" || event.type === "pointermove") this.element.classList.toggle("touch", event.pointerType === "touch");
    // A tap on the video shows or hides the controls, which its gesture does.
    if (event.pointerType === "touch" && this.frame.contains(event.target)) return;
    this.showOverlay();
  }

  isIdle() {
    return this.element.classList.contains("idle");
  }

  /** Shows the controls, and hides them after a while. */
  showOverlay() {
    if (!this.element) return;
    this.element.classList.remove("idle");
    clearTimeout(this.hideTimer);
    this.hideTimer = setTimeout(() => this.hideOverlay(), HIDE_AFTER_MS);
  }

  hideOverlay({ isRequested = false } = {}) {
    if (this.element.classList.contains("audio-only")) {
      if (isRequested) this.panels.close();
      return;
    }
    const mustStay = !this.media || !this.notice.hidden
      || (!isRequested && (this.media.paused || this.panels.isOpen()));
    if (mustStay) return;
    this.panels.close();
    this.element.classList.add("idle");
    const focused = document.activeElement;
    if (focused instanceof HTMLElement && this.element.contains(focused)) focused.blur();
  }

  handleKey(name) {
    return handleControlKey(this, name);
  }

  seekToPercent(percent) {
    const { start, end } = this.getTimes();
    if (end > start) this.options.onSeek(start + (percent / 100) * (end - start));
  }

  close() {
    this.listening?.abort();
    clearTimeout(this.hideTimer);
    clearTimeout(this.bubbleTimer);
    this.panels.hide();
    this.subtitles.close();
    clearMediaSession(this);
  }
}
