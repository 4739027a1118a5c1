// The live TV player: channel up and down, by number, last channel, watch from start.

import * as api from "./api.js";
import { statsEntries } from "./controls.js";
import { h, icon, iconButton } from "./dom.js";
import { focus, moveFocus } from "./keys.js";
import { watchLink } from "./links.js";
import { recordButton } from "./recordings.js";
import { attachLive } from "./media-source.js";
import { TEXT, errorText, formatTime, languageName, reportDelay, waitText } from "./strings.js";
import { selectMenu } from "./tracks.js";

const HIDE_AFTER_MS = 4000;

/** How long the skip message stays: about as long as a player is behind live. */
const SKIP_MESSAGE_MS = 8000;

/** The poll interval of an on-demand channel: its schedule depends on its viewers, and anyone may skip. */
const ON_DEMAND_POLL_MS = 10_000;

/** Time to enter the next digit of a channel number. */
const DIGIT_TIMEOUT_MS = 1500;

const RECENT_CHANNELS_KEY = "hearthcast.channel";

export async function showChannel(stage, params) {
  const { channels } = await api.getChannels({});
  const index = Math.max(0, channels.findIndex(({ id }) => String(id) === params.get("channel")));
  if (!channels.length) {
    location.replace("#/guide");
    return {};
  }
  const player = new LivePlayer(stage, channels);
  player.tuneTo(index, { fromStart: params.get("from") === "start" });
  return { leave: (options) => player.close(options), handleKey: (name) => player.handleKey(name) };
}

/** Whether hls.js plays segments here; otherwise the browser plays the playlist by itself. */
const playsSegments = () => Boolean(globalThis.ManagedMediaSource ?? globalThis.MediaSource);

/** The ids of the current and the last channel. */
const recentChannels = {
  get: () => {
    try {
      return JSON.parse(sessionStorage.getItem(RECENT_CHANNELS_KEY)) ?? [];
    } catch {
      return [];
    }
  },
  /** Makes a channel the current one. */
  add(id) {
    const [now, previous] = recentChannels.get();
    if (now === id) return;
    try {
      sessionStorage.setItem(RECENT_CHANNELS_KEY, JSON.stringify([id, now ?? previous]));
    } catch {
      // Without storage there is no last channel.
    }
  },
};

class LivePlayer {
  constructor(stage, channels) {
    this.channels = channels;
    this.generation = 0;
    this.detach = () => {};
    this.session = `web-${Math.random().toString(36).slice(2)}${Math.random().toString(36).slice(2)}`;
    this.digits = "";
    this.media = h("video", { playsinline: true });
    this.frame = h("div", { class: "frame waiting" }, this.media);
    this.title = h("h1", {});
    this.nowLine = h("p", { class: "now-title", role: "status" });
    this.nextLine = h("p", { class: "muted status-line" });
    this.status = h("p", { class: "status-line", role: "status" });
    this.progressBar = h("div", {});
    this.notice = h("p", { class: "notice", role: "alert", hidden: true });
    this.digitDisplay = h("p", { class: "digits", "aria-live": "assertive", hidden: true });
    this.channelPanel = h("ol", { class: "panel chapters", "aria-label": TEXT.channels, hidden: true });
    this.statsPanel = h("dl", { class: "panel stats", hidden: true });
    this.recordSlot = h("span", {});
    this.menus = h("div", { class: "menus" });
    this.languages = { audio: null, subtitle: null }; // The viewer's choice, for the next channel too.
    this.skipButton = h("button", { type: "button", hidden: true, onclick: () => this.skipProgramme() }, TEXT.skipProgramme);
    api.getCurrentUser().then(({ user }) => {
      this.isAdmin = user.role === "admin";
      this.showProgramme();
    }).catch(() => {});
    this.liveButton = h("button", { type: "button", hidden: true, onclick: () => this.tuneTo(this.index) }, TEXT.goToLive);
    this.element = h("div", { class: "player live-player" }, this.frame,
      h("div", { class: "overlay top" }, h("div", { class: "heading" },
        h("a", { class: "back", href: "#/guide", "aria-label": TEXT.guide }, icon("back")), this.title)),
      this.notice, this.digitDisplay, this.channelPanel, this.statsPanel,
      h("div", { class: "overlay bottom" }, this.nowLine, h("div", { class: "progress-line" }, this.progressBar), this.nextLine, this.status,
        h("div", { class: "control-bar" }, h("div", { class: "buttons" },
          iconButton("down", TEXT.channelDown, () => this.stepChannel(-1)),
          iconButton("up", TEXT.channelUp, () => this.stepChannel(1), { "data-first": true }),
          iconButton("undo", TEXT.lastChannel, () => this.tuneToLast()),
          iconButton("start", TEXT.watchFromStart, () => this.tuneTo(this.index, { fromStart: true })), this.liveButton, this.skipButton),
        this.menus,
        h("div", { class: "buttons" },
          this.recordSlot, iconButton("list", TEXT.channels, () => this.togglePanel(this.channelPanel)),
          iconButton("gauge", TEXT.playbackInfo, () => this.togglePanel(this.statsPanel)),
          iconButton("full", TEXT.fullScreen, () => (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen?.()))))));
    stage.replaceChildren(this.element);
    for (const name of ["pointermove", "pointerdown", "focusin"]) this.element.addEventListener(name, () => this.showOverlay());
    this.media.addEventListener("waiting", () => this.frame.classList.add("waiting"));
    for (const name of ["playing", "pause"]) {
      this.media.addEventListener(name, () => {
        this.frame.classList.remove("waiting");
        this.status.textContent = "";
      });
    }
    this.tickTimer = setInterval(() => this.tick(), 1000);
  }

  /** Tunes to a channel: shows its name at once, its video when it arrives. */
  async tuneTo(index, { fromStart = false } = {}) {
    const generation = ++this.generation;
    this.abort?.abort();
    this.abort = new AbortController();
    // Leaving frees the old channel's encode slot at once.
    if (this.index !== undefined && index !== this.index) api.leaveChannel(this.channels[this.index].id, this.session);
    this.index = index;
    const channel = this.channels[index];
    this.detach();
    this.detach = () => {};
    this.menus.replaceChildren();
    this.notice.hidden = true;
    const showStatus = (text) => {
      if (generation === this.generation) this.status.textContent = text;
    };
    showStatus(TEXT.tuning(channel.name));
    this.frame.classList.add("waiting");
    this.isFromStart = fromStart;
    this.liveButton.hidden = !fromStart;
    recentChannels.add(channel.id);
    history.replaceState(null, "", watchLink(channel.id));
    this.showProgramme();
    this.showOverlay();
    try {
      const query = { watchSession: this.session, ...(fromStart && { fromStart: 1 }), ...(playsSegments() && { format: "auto" }) };
      let reason = null;
      const onWait = (error) => {
        reason = error && waitText(error);
        showStatus(reason ?? TEXT.tuning(channel.name));
      };
      const onDelay = (seconds) => showStatus(reason ?? TEXT.tuningSince(channel.name, seconds));
      const url = await reportDelay(onDelay, api.tuneIn(channel.id, query, onWait, this.abort.signal));
      if (generation !== this.generation) return;
      const onRenditions = (renditions) => generation === this.generation && this.showMenus(renditions);
      const detach = await attachLive(this.media, url, { fromStart, onRenditions }, () => this.reconnect(generation));
      if (generation !== this.generation) {
        detach();
        return;
      }
      this.detach = detach;
      await this.media.play().catch(() => {});
    } catch (error) {
      if (generation === this.generation && error.name !== "AbortError") this.showError(errorText(error));
    }
  }

  /** Shows menus for the tracks of a channel, and selects the languages that the viewer chose before. */
  showMenus(renditions) {
    const { audio, subtitles } = renditions.description;
    const choice = (track, chosen) => ({ track, value: track.streamIndex, label: languageName(track.language) ?? track.name, chosen: track === chosen });
    const inLanguage = (tracks, language) => tracks.find((track) => language && track.language === language);
    const [chosenAudio, chosenSubtitle] = [inLanguage(audio, this.languages.audio), inLanguage(subtitles, this.languages.subtitle)];
    const selectAudio = (track) => {
      this.languages.audio = track.language;
      renditions.selectAudio(track.streamIndex);
    };
    const selectSubtitle = (track) => {
      this.languages.subtitle = track?.language ?? null;
      renditions.selectSubtitle(track);
    };
    if (chosenAudio) selectAudio(chosenAudio);
    if (chosenSubtitle) selectSubtitle(chosenSubtitle);
    const off = { track: null, value: "", label: TEXT.off };
    this.menus.replaceChildren(...[
      selectMenu(TEXT.audio, audio.map((track) => choice(track, chosenAudio ?? audio[0])), ({ track }) => selectAudio(track)),
      selectMenu(TEXT.subtitles, [off, ...subtitles.map((track) => choice(track, chosenSubtitle))], ({ track }) => selectSubtitle(track)),
    ].filter(Boolean));
  }

  /** Tunes in again after a while, as often as necessary. */
  reconnect(generation) {
    if (generation !== this.generation) return;
    this.showError(TEXT.reconnecting);
    this.retryTimer = setTimeout(() => generation === this.generation && this.tuneTo(this.index, { fromStart: this.isFromStart }), 3000);
  }

  showError(text) {
    this.frame.classList.remove("waiting");
    this.status.textContent = "";
    this.notice.textContent = text;
    this.notice.hidden = false;
    this.showOverlay();
  }

  showProgramme() {
    const { id, number, name, now, next, onDemand } = this.channels[this.index];
    document.title = `${name} – Hearthcast`;
    this.title.textContent = `${number} ${name}`;
    this.nowLine.textContent = now ? `${now.title} · ${formatTime(now.start)}–${formatTime(now.end)}` : TEXT.nothingScheduled;
    this.nextLine.textContent = next ? TEXT.nextAt(formatTime(next.start), next.title) : "";
    this.skipButton.hidden = !this.isAdmin || !onDemand || !now;
    // An on-demand channel has no fixed schedule, so it cannot be recorded.
    const recordable = this.isAdmin && !onDemand ? now : null;
    if (this.recordable !== recordable?.id) {
      this.recordable = recordable?.id;
      this.recordSlot.replaceChildren(...(recordable ? [recordButton(id, recordable)] : []));
    }
    const elapsed = now ? (Date.now() - Date.parse(now.start)) / (Date.parse(now.end) - Date.parse(now.start)) : 0;
    this.progressBar.style.setProperty("width", `${Math.min(100, Math.max(0, elapsed * 100))}%`);
  }

  /** Every second: updates the progress, and the programme when it has ended. */
  async tick() {
    this.showProgramme();
    if (!this.statsPanel.hidden) this.statsPanel.replaceChildren(...statsEntries(this.collectStats()));
    const { id, now, onDemand } = this.channels[this.index];
    const sinceRefresh = Date.now() - (this.refreshedAt ?? 0);
    const isDue = onDemand ? sinceRefresh > ON_DEMAND_POLL_MS : now ? Date.now() > Date.parse(now.end) : sinceRefresh > 30_000;
    if (!isDue || sinceRefresh < 5000) return;
    this.refreshedAt = Date.now();
    if (onDemand) {
      await api.getNowNext(id).then((programmes) => this.setProgrammes(id, programmes), () => {});
      return;
    }
    const { channels } = await api.getChannels({}).catch(() => ({ channels: [] }));
    const index = channels.findIndex((channel) => channel.id === this.channels[this.index].id);
    if (index >= 0) [this.channels, this.index] = [channels, index];
  }

  /** Updates what is on a channel. */
  setProgrammes(id, { current, next }) {
    Object.assign(this.channels.find((channel) => channel.id === id) ?? {}, { now: current?.entry ?? null, next });
    this.showProgramme();
  }

  /** Skips to the next programme, for all viewers. */
  async skipProgramme() {
    const generation = this.generation;
    const { id } = this.channels[this.index];
    this.notice.hidden = true;
    try {
      const programmes = await api.skipProgramme(id);
      this.setProgrammes(id, programmes);
      if (generation !== this.generation || !programmes.current) return;
      if (this.isFromStart) {
        await this.tuneTo(this.index);
        return;
      }
      const text = TEXT.skippingTo(programmes.current.entry.title);
      this.status.textContent = text;
      this.showOverlay();
      setTimeout(() => {
        if (this.status.textContent === text) this.status.textContent = "";
      }, SKIP_MESSAGE_MS);
    } catch (error) {
      if (generation === this.generation) this.showError(errorText(error));
    }
  }

  collectStats() {
    const { media } = this;
    const frames = media.getVideoPlaybackQuality();
    const buffered = media.buffered.length ? media.buffered.end(media.buffered.length - 1) - media.currentTime : 0;
    const behindLive = media.seekable.length ? media.seekable.end(media.seekable.length - 1) - media.currentTime : null;
    return [
      ["Resolution", media.videoWidth > 0 && `${media.videoWidth}×${media.videoHeight}`],
      ["Buffered", `${buffered.toFixed(1)} s`],
      ["Behind live", behindLive !== null && `${behindLive.toFixed(1)} s`],
      ["Dropped frames", `${frames.droppedVideoFrames} of ${frames.totalVideoFrames}`],
      ["Channel state", this.channels[this.index].state],
      ["Viewers", this.channels[this.index].viewers > 0 && String(this.channels[this.index].viewers)],
    ];
  }

  stepChannel(offset) {
    this.tuneTo((this.index + offset + this.channels.length) % this.channels.length);
  }

  tuneToLast() {
    const [, lastId] = recentChannels.get();
    const index = this.channels.findIndex(({ id }) => id === lastId);
    if (index >= 0) this.tuneTo(index);
  }

  /** Adds a digit to the channel number, and tunes to it after a pause. */
  enterDigit(digit) {
    this.digits = (this.digits + digit).slice(-5);
    this.digitDisplay.textContent = this.digits;
    this.digitDisplay.hidden = false;
    clearTimeout(this.digitTimer);
    this.digitTimer = setTimeout(() => this.tuneToNumber(), DIGIT_TIMEOUT_MS);
  }

  tuneToNumber() {
    clearTimeout(this.digitTimer);
    const requestedNumber = Number(this.digits);
    this.digits = "";
    const index = this.channels.findIndex(({ number }) => number === requestedNumber);
    if (index < 0) {
      this.digitDisplay.textContent = TEXT.noSuchChannel(requestedNumber);
      this.digitTimer = setTimeout(() => { this.digitDisplay.hidden = true; }, DIGIT_TIMEOUT_MS);
      return;
    }
    this.digitDisplay.hidden = true;
    this.tuneTo(index);
  }

  togglePanel(panel) {
    const isOpening = panel.hidden;
    this.channelPanel.hidden = true;
    this.statsPanel.hidden = true;
    panel.hidden = !isOpening;
    if (!isOpening) return;
    if (panel === this.statsPanel) {
      this.statsPanel.replaceChildren(...statsEntries(this.collectStats()));
      return;
    }
    this.channelPanel.replaceChildren(...this.channels.map(({ number, name, now }, index) => h("li", {},
      h("button", { type: "button", class: "chapter", "aria-current": index === this.index ? "true" : null, onclick: () => {
        this.channelPanel.hidden = true;
        this.tuneTo(index);
      } }, h("span", {}, `${number} ${name}`), h("span", { class: "muted" }, now?.title)))));
    focus(this.channelPanel.querySelector("[aria-current]"));
  }

  showOverlay() {
    this.element.classList.remove("idle");
    clearTimeout(this.hideTimer);
    this.hideTimer = setTimeout(() => {
      if (!this.notice.hidden || !this.channelPanel.hidden || this.media.paused || this.status.textContent) return;
      this.element.classList.add("idle");
      if (this.element.contains(document.activeElement)) document.activeElement.blur();
    }, HIDE_AFTER_MS);
  }

  handleKey(name) {
    const isHidden = this.element.classList.contains("idle");
    const isInside = this.element.contains(document.activeElement) && document.activeElement !== document.body;
    const isListOpen = !this.channelPanel.hidden;
    if (/^[0-9]$/.test(name)) {
      this.enterDigit(name);
      return true;
    }
    const action = {
      ChannelUp: () => this.stepChannel(1), PageUp: () => this.stepChannel(1), ChannelDown: () => this.stepChannel(-1), PageDown: () => this.stepChannel(-1),
      LastChannel: () => this.tuneToLast(), l: () => this.tuneToLast(), i: () => this.togglePanel(this.statsPanel), g: () => this.togglePanel(this.channelPanel),
      MediaStop: () => history.back(), m: () => { this.media.muted = !this.media.muted; },
      f: () => (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen?.()),
      ...(name === "Enter" && this.digits && { Enter: () => this.tuneToNumber() }),
      ...(isHidden && !isListOpen && {
        ArrowUp: () => this.stepChannel(1), ArrowDown: () => this.stepChannel(-1), ArrowLeft: () => this.togglePanel(this.channelPanel),
        ArrowRight: () => this.showOverlay(), Enter: () => focus(this.element.querySelector("[data-first]")),
      }),
      ...(isListOpen && name === "Back" && { Back: () => this.togglePanel(this.channelPanel) }),
      ...(!isListOpen && !this.statsPanel.hidden && name === "Back" && { Back: () => this.togglePanel(this.statsPanel) }),
    }[name];
    if (action) {
      this.showOverlay();
      action();
      return true;
    }
    if (!name.startsWith("Arrow")) return false;
    this.showOverlay();
    return isInside ? moveFocus(name, isListOpen ? this.channelPanel : this.element) || true : focus(this.element.querySelector("[data-first]"));
  }

  close(options) {
    this.generation += 1;
    this.abort?.abort();
    for (const timer of [this.hideTimer, this.digitTimer, this.retryTimer]) clearTimeout(timer);
    clearInterval(this.tickTimer);
    this.detach();
    if (!options?.unloading) api.leaveChannel(this.channels[this.index].id, this.session);
  }
}
