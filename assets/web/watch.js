// The live TV player: channel up and down, by number, last channel, watch from start, pause and rewind.

import * as api from "./api.js";
import { liveQuery } from "./capabilities.js";
import { choiceGroup } from "./choices.js";
import { Controls } from "./controls.js";
import { h, iconButton } from "./dom.js";
import { LiveClock } from "./live-clock.js";
import { watchLink } from "./links.js";
import { recordButton } from "./record-button.js";
import { RecordingState } from "./recording-state.js";
import { attachLive } from "./media-source.js";
import { formatClock, formatTime, languageName, reportDelay } from "./format.js";
import { TEXT, errorText, stateLabel, waitText } from "./strings.js";

/** How long the skip message stays: about as long as a player is behind live. */
const SKIP_MESSAGE_MS = 8000;

/** The poll interval of an on-demand channel: its schedule depends on its viewers, and anyone may skip. */
const ON_DEMAND_POLL_MS = 10_000;

/** Time to enter the next digit of a channel number. */
const DIGIT_TIMEOUT_MS = 1500;

const RECENT_CHANNELS_KEY = "hearthcast.channel";

export async function showChannel(stage, params) {
  const { channels } = await api.getChannels({});
  // The viewer has gone to another screen meanwhile: the address changes before the screen does.
  if (!location.hash.startsWith("#/watch")) return {};
  const index = Math.max(0, channels.findIndex(({ id }) => String(id) === params.get("channel")));
  if (!channels.length) {
    location.replace("#/guide");
    return {};
  }
  const player = new LivePlayer(stage, channels);
  player.tuneTo(index, { fromStart: params.get("from") === "start" });
  return {
    leave: (options) => player.close(options),
    handleKey: (name) => player.handleKey(name),
    getAddress: () => watchLink(player.channel().id),
    keepsPlaying: () => player.controls.keepsPlaying(),
    setMini(isMini) {
      player.isMini = isMini;
      player.controls.setMini(isMini);
      player.showProgramme();
    },
  };
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
    this.isMini = false;
    this.detach = () => {};
    this.session = `web-${Math.random().toString(36).slice(2)}${Math.random().toString(36).slice(2)}`;
    this.digits = "";
    this.media = h("video", { playsinline: true });
    this.clock = new LiveClock(this.media);
    this.digitDisplay = h("p", { class: "digits", "aria-live": "assertive", hidden: true });
    this.nowLine = h("p", { class: "now-title", role: "status" });
    this.nextLine = h("p", { class: "muted next-line" });
    this.recordSlot = h("span", {});
    this.recordings = new RecordingState();
    this.languages = { audio: null, subtitle: null }; // The viewer's choices; they apply to the next channel too.
    this.skipButton = h("button", { type: "button", class: "text-button", hidden: true, onclick: () => this.skipProgramme() }, TEXT.skipProgramme);
    this.liveButton = h("button", { type: "button", class: "text-button", hidden: true, onclick: () => this.goToLive() }, TEXT.goToLive);
    this.liveMark = h("span", { class: "live-mark" }, TEXT.live);
    this.channelList = h("ol", { class: "chapters" });
    this.controls = new Controls({
      title: "", backUrl: "#/guide", backLabel: TEXT.guide, keyList: TEXT.liveKeys,
      onSeek: (at) => this.clock.seek(at),
      getInfo: () => this.collectInfo(),
      getAddress: () => watchLink(this.channel().id),
      getTimes: () => this.clock.times(this.programmeAt(this.clock.position())),
      timelineOptions: { format: (at) => formatTime(1000 * at), formatEnd: ({ end }) => formatTime(1000 * end) },
      keys: {
        ChannelUp: () => this.stepChannel(1), PageUp: () => this.stepChannel(1), ChannelDown: () => this.stepChannel(-1), PageDown: () => this.stepChannel(-1),
        LastChannel: () => this.tuneToLast(), l: () => this.tuneToLast(), g: () => this.toggleChannels(),
      },
    });
    this.arrange();
    stage.replaceChildren(this.controls.element);
    api.getCurrentUser().then(({ user }) => {
      this.isAdmin = user.role === "admin";
      this.loadRecordings();
      this.showProgramme();
    }).catch(() => {});
    for (const name of ["playing", "pause"]) this.media.addEventListener(name, () => this.controls.showStatus(""));
    this.controls.setMedia({ media: this.media });
    this.tickTimer = setInterval(() => this.tick(), 1000);
  }

  /** Adds what only live TV has to the controls. */
  arrange() {
    const { controls } = this;
    controls.element.classList.add("live-player");
    controls.element.append(this.digitDisplay);
    controls.banner.append(this.nowLine, this.nextLine);
    controls.panels.add("channels", "guide", TEXT.channels, this.channelList, { refresh: () => this.listChannels() });
    controls.leading.append(iconButton("down", TEXT.channelDown, () => this.stepChannel(-1)), iconButton("up", TEXT.channelUp, () => this.stepChannel(1)),
      iconButton("undo", TEXT.lastChannel, () => this.tuneToLast()));
    controls.extraButtons.append(this.liveMark, this.liveButton, iconButton("start", TEXT.watchFromStart, () => this.tuneTo(this.index, { fromStart: true })),
      this.skipButton, this.recordSlot, controls.panels.button("channels"));
  }

  channel() {
    return this.channels[this.index];
  }

  /** Tunes to a channel: shows its name at once, its video when it arrives. */
  async tuneTo(index, { fromStart = false } = {}) {
    const generation = ++this.generation;
    this.abort?.abort();
    this.abort = new AbortController();
    // Leaving frees the old channel's encode slot at once.
    if (this.index !== undefined && index !== this.index) api.leaveChannel(this.channel().id, this.session);
    if (index !== this.index) this.previous = null;
    this.index = index;
    this.clock.reset();
    const channel = this.channel();
    this.detach();
    this.detach = () => {};
    this.controls.setTracks(null, null);
    this.controls.showNotice(null);
    const showStatus = (text) => {
      if (generation === this.generation) this.controls.showStatus(text);
    };
    showStatus(TEXT.tuning(channel.name));
    this.controls.setWaiting(true);
    this.isFromStart = fromStart;
    recentChannels.add(channel.id);
    if (!this.isMini) history.replaceState(history.state, "", watchLink(channel.id));
    this.showProgramme();
    this.controls.showOverlay();
    try {
      const query = { watchSession: this.session, ...(fromStart && { fromStart: 1 }), ...(playsSegments() && await liveQuery()) };
      let reason = null;
      const onWait = (error) => {
        reason = error && waitText(error);
        showStatus(reason ?? TEXT.tuning(channel.name));
      };
      const onDelay = (seconds) => showStatus(reason ?? TEXT.tuningSince(channel.name, seconds));
      const url = await reportDelay(onDelay, api.tuneIn(channel.id, query, onWait, this.abort.signal));
      if (generation !== this.generation) return;
      const onRenditions = (renditions) => generation === this.generation && this.showTracks(renditions);
      const detach = await attachLive(this.media, url, { fromStart, onRenditions }, () => this.reconnect(generation));
      if (generation !== this.generation) {
        detach();
        return;
      }
      this.detach = detach;
      await this.media.play().catch(() => {}); // The browser may require a click first.
    } catch (error) {
      if (generation !== this.generation || error.name === "AbortError") return;
      if (error.code === "OFFLINE") this.reconnect(generation);
      else this.showError(errorText(error));
    }
  }

  /** Offers the tracks of a channel, and selects the languages that the viewer chose before. */
  showTracks(renditions) {
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
    const off = { track: null, value: "", label: TEXT.off, chosen: !chosenSubtitle };
    this.controls.setTracks(
      choiceGroup(TEXT.audio, audio.map((track) => choice(track, chosenAudio ?? audio[0])), ({ track }) => selectAudio(track)),
      choiceGroup(TEXT.subtitles, [off, ...subtitles.map((track) => choice(track, chosenSubtitle))], ({ track }) => selectSubtitle(track)));
  }

  /** Tunes in again after a while, as often as necessary. */
  reconnect(generation) {
    if (generation !== this.generation) return;
    this.showError(TEXT.reconnecting);
    this.retryTimer = setTimeout(() => generation === this.generation && this.tuneTo(this.index, { fromStart: this.isFromStart }), 3000);
  }

  showError(text) {
    this.controls.setWaiting(false);
    this.controls.showStatus("");
    this.controls.showNotice(text);
  }

  goToLive() {
    if (this.isFromStart) this.tuneTo(this.index);
    else this.clock.goToLive();
  }

  /** The programme that the viewer sees: the current one, or the one before while rewound to it. */
  programmeAt(position) {
    const { now } = this.channel() ?? {}; // None is tuned to at first.
    return this.previous && now && 1000 * position < Date.parse(now.start) && this.previous.id !== now.id ? this.previous : now;
  }

  showProgramme() {
    const { id, number, name, now, next, onDemand } = this.channel();
    const seen = this.programmeAt(this.clock.position());
    if (!this.isMini) document.title = `${name} – Hearthcast`;
    this.controls.title.textContent = `${number} ${name}`;
    const shown = `${id} ${seen?.id}`;
    if (this.shownMetadata !== shown) this.controls.showMetadata({ title: seen?.title ?? name, artist: name });
    this.shownMetadata = shown;
    this.nowLine.textContent = seen ? `${seen.title} · ${formatTime(seen.start)}–${formatTime(seen.end)}` : TEXT.nothingScheduled;
    this.nextLine.textContent = next ? TEXT.nextAt(formatTime(next.start), next.title) : "";
    this.skipButton.hidden = !this.isAdmin || !onDemand || !now;
    const behind = this.clock.behind();
    this.liveMark.textContent = behind > 0 ? TEXT.behindLive(formatClock(behind)) : TEXT.live;
    this.liveMark.classList.toggle("is-behind", behind > 0);
    this.liveButton.hidden = !this.isFromStart && !(behind > 0);
    // An on-demand channel has no fixed schedule, so it cannot be recorded.
    const recordable = this.isAdmin && this.recordings.isEnabled && !onDemand ? now : null;
    if (this.recordable !== recordable?.id) {
      this.recordable = recordable?.id;
      this.recordSlot.replaceChildren(...(recordable ? [recordButton(id, recordable, this.recordings.recordingOf(id, recordable))] : []));
    }
    if (this.media.readyState > 0) this.controls.updateTimeline();
  }

  /** Loads what is recorded already, so that the button says so. */
  async loadRecordings() {
    await this.recordings.load();
    this.recordable = undefined;
    if (this.index !== undefined) this.showProgramme();
  }

  /** Every second: updates the progress, and the programme when it has ended. */
  async tick() {
    if (this.index === undefined) return;
    this.showProgramme();
    const { id, now, onDemand } = this.channel();
    const sinceRefresh = Date.now() - (this.refreshedAt ?? 0);
    const isDue = onDemand ? sinceRefresh > ON_DEMAND_POLL_MS : now ? Date.now() > Date.parse(now.end) : sinceRefresh > 30_000;
    if (!isDue || sinceRefresh < 5000) return;
    this.refreshedAt = Date.now();
    if (onDemand) {
      await api.getNowNext(id).then((programmes) => this.setProgrammes(id, programmes), () => {});
      return;
    }
    const { channels } = await api.getChannels({}).catch(() => ({ channels: [] }));
    const index = channels.findIndex((channel) => channel.id === this.channel().id);
    if (index < 0) return;
    if (channels[index].now?.id !== now?.id) this.previous = now;
    [this.channels, this.index] = [channels, index];
  }

  /** Updates what is on a channel. */
  setProgrammes(id, { current, next }) {
    Object.assign(this.channels.find((channel) => channel.id === id) ?? {}, { now: current?.entry ?? null, next });
    this.showProgramme();
  }

  /** Skips to the next programme, for all viewers. */
  async skipProgramme() {
    const generation = this.generation;
    const { id } = this.channel();
    this.controls.showNotice(null);
    try {
      const programmes = await api.skipProgramme(id);
      this.setProgrammes(id, programmes);
      if (generation !== this.generation || !programmes.current) return;
      if (this.isFromStart) {
        await this.tuneTo(this.index);
        return;
      }
      const text = TEXT.skippingTo(programmes.current.entry.title);
      this.controls.showStatus(text);
      this.controls.showOverlay();
      setTimeout(() => {
        if (this.controls.statusLine.textContent === text) this.controls.showStatus("");
      }, SKIP_MESSAGE_MS);
    } catch (error) {
      if (generation === this.generation) this.showError(errorText(error));
    }
  }

  collectInfo() {
    const { media } = this;
    const labels = TEXT.info;
    const frames = media.getVideoPlaybackQuality();
    const buffered = media.buffered.length ? media.buffered.end(media.buffered.length - 1) - media.currentTime : 0;
    const { state, viewers } = this.channel();
    return [
      [labels.resolution, media.videoWidth > 0 && `${media.videoWidth}×${media.videoHeight}`],
      [labels.buffered, TEXT.preciseSeconds(buffered)],
      [labels.behind, media.seekable.length > 0 && TEXT.preciseSeconds(this.clock.latency())],
      [labels.dropped, TEXT.framesDropped(frames.droppedVideoFrames, frames.totalVideoFrames)],
      [labels.channelState, stateLabel(state)],
      [labels.viewers, viewers > 0 && String(viewers)],
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

  /** The mini guide: what is on now, over the video. */
  listChannels() {
    const key = JSON.stringify([this.index, this.channels.map(({ id, now, next }) => [id, now?.id, next?.id])]);
    if (this.listedKey === key) return;
    this.listedKey = key;
    const focusedKey = this.channelList.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.key : null;
    this.channelList.replaceChildren(...this.channels.map(({ id, number, name, now, next }, index) => h("li", {},
      h("button", { type: "button", class: "chapter channel", "data-key": `channel-${id}`, "aria-current": index === this.index ? "true" : null, onclick: () => {
        this.controls.panels.close();
        this.tuneTo(index);
      } }, h("span", {}, `${number} ${name}`), h("span", { class: "muted" }, now?.title),
      next && h("span", { class: "muted next" }, TEXT.nextAt(formatTime(next.start), next.title))))));
    if (focusedKey) this.channelList.querySelector(`[data-key="${focusedKey}"]`)?.focus();
  }

  toggleChannels() {
    this.controls.panels.toggle("channels");
  }

  handleKey(name) {
    const { controls } = this;
    if (/^[0-9]$/.test(name)) {
      controls.showOverlay();
      this.enterDigit(name);
      return true;
    }
    if (name === "Enter" && this.digits) {
      this.tuneToNumber();
      return true;
    }
    // While nothing is over the video, the arrows of a remote control change the channel.
    const action = controls.isIdle() && { ArrowUp: () => this.stepChannel(1), ArrowDown: () => this.stepChannel(-1),
      ArrowLeft: () => this.toggleChannels(), ArrowRight: () => controls.showOverlay() }[name];
    if (!action) return controls.handleKey(name);
    controls.showOverlay();
    action();
    return true;
  }

  close(options) {
    this.generation += 1;
    this.abort?.abort();
    for (const timer of [this.digitTimer, this.retryTimer]) clearTimeout(timer);
    clearInterval(this.tickTimer);
    this.controls.close();
    this.detach();
    if (!options?.unloading && this.index !== undefined) api.leaveChannel(this.channel().id, this.session);
  }
}
