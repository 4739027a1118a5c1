// The player of one file. A change of quality or burned-in subtitles restarts it at the same position, and so does a change of
// audio in a session without renditions.

import { setLanguages } from "./account-preferences.js";
import * as api from "./api.js";
import { findCover } from "./artwork.js";
import { describeClient } from "./capabilities.js";
import { choiceGroup } from "./choices.js";
import { Controls } from "./controls.js";
import { describeDecision } from "./decision.js";
import { h } from "./dom.js";
import { languageName, reportDelay } from "./format.js";
import { fileLink, nameOf, playLink, stem } from "./links.js";
import { attach } from "./media-source.js";
import { findNextPart } from "./next-part.js";
import { collectInfo } from "./playback-info.js";
import { getPreferences, setPreferences } from "./preferences.js";
import { deviceProfile } from "./profile.js";
import { TEXT, errorText, pageError, waitText } from "./strings.js";
import { applyTracks, audioChoices, isStyled, needsVideoEncode, qualityChoices, rateChoices, recallLanguages, showSubtitle, startedAudio, stepRate, subtitleChoices } from "./tracks.js";

/** The next file is suggested this long before the end, seconds. */
const SUGGEST_NEXT_SECONDS = 20;
const SAVE_INTERVAL_MS = 10_000;

/** How often a server that does not answer is tried again, ms. */
const RETRY_MS = 2000;

/** Plays the file at `path` in `stage`, and those that follow it. */
export function showPlayer(stage, params) {
  let isMini = false;
  /** @type {Player} */
  let player;
  const open = (path, from, tracks) => {
    player = new Player(stage, { path, from, tracks }, (next) => {
      player.close();
      open(next, null, {});
      if (isMini) player.controls.setMini(true);
      else history.replaceState(history.state, "", playLink(next));
    });
    if (!isMini) player.showTitle();
    player.open();
  };
  const tracks = { audio: params.get("audio"), subtitles: params.get("subtitles") };
  open(params.get("path") ?? "", params.get("at") === null ? null : Number(params.get("at")), tracks);
  return {
    leave: (options) => player.close(options),
    handleKey: (name) => player.controls.handleKey(name),
    getAddress: () => playLink(player.path),
    keepsPlaying: () => player.controls.keepsPlaying(),
    setMini(next) {
      isMini = next;
      player.controls.setMini(next);
      if (!next) player.showTitle();
    },
  };
}

class Player {
  constructor(stage, { path, from, tracks }, playNext) {
    this.path = path;
    this.playNext = playNext;
    this.startPosition = from;
    this.tracks = tracks; // Those of the address.
    this.abort = new AbortController();
    this.options = { audio: null, burn: null, resolution: "original", forceTranscode: false };
    this.generation = 0;
    this.pendingPosition = null; // Where playback starts once the media is loaded.
    this.lastRestartAt = 0;
    this.lastSavedAt = -Infinity;
    this.lastSavedPosition = -Infinity;
    this.session = null;
    this.subtitle = null; // The selected one.
    this.ownSubtitle = null; // The one that is shown by the page itself instead of a rendition.
    this.detach = () => {};
    this.renditions = null; // Those of the session, once it is attached.
    this.controls = new Controls({
      title: stem(nameOf(path)),
      backUrl: fileLink(path),
      backLabel: TEXT.details,
      onSeek: (position) => this.seek(position),
      getInfo: () => collectInfo(this),
      getAddress: () => playLink(path),
      keys: {
        c: () => this.toggleSubtitles(), n: () => this.next && this.playNext(this.next),
        "<": () => this.stepRate(-1), ">": () => this.stepRate(1),
      },
    });
    stage.replaceChildren(this.controls.element);
  }

  showTitle() {
    document.title = `${this.controls.title.textContent} – Hearthcast`;
  }

  async open() {
    try {
      const client = await describeClient();
      this.capabilities = client.capabilities; // Without them the server makes MPEG-TS.
      const info = await api.getMediaInfo(this.path, client, this.abort.signal, (error) => this.controls.showStatus(error ? waitText(error) : ""));
      this.setUpMedia(info, info.tracks.video.length ? undefined : await findCover(info.mediaId));
      await this.startAt(this.startPosition ?? info.watchProgress?.resumePositionSeconds ?? 0);
      this.findNext();
    } catch (error) {
      if (error.code === "OFFLINE") this.waitForServer();
      else this.showError(error);
    }
  }

  /** Creates the media element and the menus for the item. */
  setUpMedia(info, cover) {
    const hasVideo = info.tracks.video.length > 0;
    this.info = info;
    /** @type {"video" | "audio"} */
    this.kind = hasVideo ? "video" : "audio";
    this.media = h(this.kind, { playsinline: true, preload: "auto" });
    this.media.addEventListener("loadeddata", () => { this.pendingPosition = null; });
    this.media.addEventListener("timeupdate", () => this.onTimeUpdate());
    this.media.addEventListener("pause", () => this.saveProgress({ immediately: true }));
    this.media.addEventListener("ended", () => {
      this.saveProgress({ immediately: true, completed: true });
      if (this.next && !this.isNextRefused) this.playNext(this.next);
    });
    const subtitles = subtitleChoices(info);
    const audios = audioChoices(info);
    this.subtitles = subtitles;
    this.chooseTracks(audios, subtitles);
    if (hasVideo && info.playback.resolutions.includes(getPreferences().quality)) this.options.resolution = getPreferences().quality;
    const off = { value: "", label: TEXT.off, subtitle: null, chosen: this.subtitle === null };
    this.audioGroup = choiceGroup(TEXT.audio, audios, ({ value, language }) => {
      setLanguages(this.path, { audio: language });
      this.selectAudio(value);
    });
    this.subtitleGroup = hasVideo ? choiceGroup(TEXT.subtitles, [off, ...subtitles], ({ subtitle }) => {
      setLanguages(this.path, { subtitle: subtitle ? subtitle.language ?? null : "off" });
      this.selectSubtitle(subtitle);
    }) : null;
    this.rateGroup = choiceGroup(TEXT.speed, rateChoices(getPreferences().rate), ({ value }) => this.setRate(value));
    this.controls.setMedia({
      media: this.media,
      title: info.description?.title ?? info.tags?.title,
      artist: info.tags?.artist,
      album: info.tags?.album,
      artwork: cover,
      chapters: info.chapters ?? [],
      previewsUrl: info.previewsUrl,
      duration: info.probe.durationSeconds,
    });
    this.controls.line.textContent = [info.tags?.artist, info.tags?.album].filter(Boolean).join(" · ");
    this.controls.setTracks(this.audioGroup, this.subtitleGroup);
    this.controls.setSettings(
      hasVideo && choiceGroup(TEXT.quality, qualityChoices(info, this.capabilities, this.options.resolution), ({ value }) => this.changeOptions({ resolution: value })),
      this.rateGroup);
    this.setRate(getPreferences().rate);
  }

  /** Chooses the tracks of the address, or the languages that were chosen before. */
  chooseTracks(audios, subtitles) {
    const first = audios.find(({ chosen }) => chosen);
    recallLanguages(this.path, audios, subtitles);
    applyTracks(this.tracks, audios, subtitles);
    const audio = audios.find(({ chosen }) => chosen);
    if (audio !== first) this.options.audio = audio.value;
    if (this.kind === "video") this.subtitle = subtitles.find(({ chosen }) => chosen)?.subtitle ?? null;
    if (this.subtitle && this.subtitle.kind !== "text") this.options.burn = this.subtitle.streamIndex;
  }

  setRate(rate) {
    setPreferences({ rate });
    this.media.defaultPlaybackRate = rate;
    this.media.playbackRate = rate;
    this.rateGroup.select(rate);
  }

  stepRate(step) {
    if (!this.media) return;
    this.setRate(stepRate(this.media.playbackRate, step));
    this.controls.showBubble(TEXT.rate(this.media.playbackRate));
  }

  /** Switches subtitles off, or on as they were. */
  toggleSubtitles() {
    if (!this.subtitleGroup) return;
    const next = this.subtitle ? null : this.lastSubtitle ?? this.subtitles[0].subtitle;
    if (this.subtitle) this.lastSubtitle = this.subtitle;
    this.subtitleGroup.select(next?.id ?? "");
    setLanguages(this.path, { subtitle: next ? next.language ?? null : "off" });
    this.selectSubtitle(next);
    this.controls.showBubble(`${TEXT.subtitles}: ${this.subtitleGroup.chosen.label}`);
  }

  /** Starts playback at `position` and replaces the current session. */
  async startAt(position) {
    const generation = ++this.generation;
    this.pendingPosition = position;
    this.detach();
    [this.detach, this.renditions] = [() => {}, null];
    this.controls.showNotice(null);
    this.controls.setWaiting(true);
    this.controls.showStatus(TEXT.preparing);
    await this.endSession(); // Frees its encode slot first.
    if (generation !== this.generation) return;
    const { audio, burn, resolution, forceTranscode } = this.options;
    try {
      const playback = await api.startPlayback({
        mediaPath: this.path,
        startPositionSeconds: position,
        profile: { resolution, abr: this.canAdapt() },
        deviceProfile: deviceProfile(),
        forceTranscode,
        ...(this.capabilities && { capabilities: this.capabilities }),
        ...(audio !== null && { audioStreamIndex: audio }),
        ...(burn !== null && { subtitleStreamIndex: burn, subtitleMode: "burn" }),
      }, (error) => this.controls.showStatus(error ? waitText(error) : TEXT.preparing), this.abort.signal);
      if (generation !== this.generation) {
        if (playback.sessionId) api.endSession(playback);
        return;
      }
      this.session = playback.sessionId ? playback : null;
      this.playback = playback;
      this.activeAudio = startedAudio(playback);
      this.audioGroup?.select(this.activeAudio);
      this.controls.method.textContent = this.describe();
      const onDelay = (seconds) => this.controls.showStatus(TEXT.preparingSince(seconds));
      if (playback.sessionId) await reportDelay(onDelay, api.waitForPlaylist(playback.signedPlaylistUrl, this.abort.signal));
      this.controls.showStatus("");
      if (generation !== this.generation) return;
      const { detach, renditions } = await attach(this.media, playback, position, (failure) => this.recover(failure));
      if (generation !== this.generation) {
        detach();
        return;
      }
      [this.detach, this.renditions] = [detach, renditions];
      if (renditions) renditions.onAudioChange = (streamIndex) => this.showActiveAudio(streamIndex);
      this.showSelectedSubtitle();
      await this.media.play().catch(() => {}); // The browser may require a click first.
    } catch (error) {
      if (generation !== this.generation) return;
      if (error.code === "OFFLINE") this.waitForServer();
      else this.showError(error);
    }
  }

  /** Whether the quality may adapt to the bandwidth: only where the video is encoded anyway and no quality was chosen. */
  canAdapt() {
    const { burn, resolution } = this.options;
    return this.kind === "video" && resolution === "original" && (burn !== null || needsVideoEncode(this.info, this.capabilities));
  }

  /** The current playback in a few words. */
  describe() {
    return this.playback.playbackMode === "direct" ? TEXT.directPlay : describeDecision(this.playback.decision, this.activeAudio, this.options.resolution !== "original");
  }

  /** Finds what comes next, and offers it. */
  async findNext() {
    this.next = await findNextPart(this.path, this.kind, (folder) => api.listFolder(folder)).catch(() => null);
    if (!this.next || this.abort.signal.aborted) return;
    this.controls.extraButtons.replaceChildren(h("button", { type: "button", class: "text-button", title: TEXT.nextTitle(stem(nameOf(this.next))), onclick: () => this.playNext(this.next) }, TEXT.next));
  }

  onTimeUpdate() {
    this.saveProgress();
    const { currentTime, duration } = this.media;
    const skippable = this.info.marks?.find(({ startSeconds, endSeconds }) => startSeconds <= currentTime && currentTime < endSeconds - 1);
    const suggested = this.next && !this.isNextRefused && duration > 2 * SUGGEST_NEXT_SECONDS && duration - currentTime < SUGGEST_NEXT_SECONDS ? this.next : null;
    if (suggested) {
      const remaining = Math.ceil(duration - currentTime);
      this.controls.showSuggestion(TEXT.nextIn(remaining, stem(nameOf(suggested))), () => this.playNext(suggested), "next", () => {
        this.isNextRefused = true;
        this.controls.showSuggestion(null);
      });
    } else if (skippable) this.controls.showSuggestion(TEXT.skipMark[skippable.kind], () => this.seek(skippable.endSeconds), "skip");
    else this.controls.showSuggestion(null);
  }

  /** Saves the position: every ten seconds, or immediately. */
  saveProgress({ immediately = false, completed = false, unloading = false } = {}) {
    const { currentTime, duration, seeking, readyState } = this.media;
    const now = performance.now();
    if (!api.isSignedIn() || seeking || readyState < 2 || currentTime <= 0 || !(duration > 0)) return;
    if (!immediately && now - this.lastSavedAt < SAVE_INTERVAL_MS) return;
    // Nothing changed: do not overwrite what another device has saved since.
    if (!completed && Math.abs(currentTime - this.lastSavedPosition) < 0.5) return;
    [this.lastSavedAt, this.lastSavedPosition] = [now, currentTime];
    const length = Number.isFinite(duration) ? { durationSeconds: duration } : {};
    const progress = { mediaPath: this.path, mediaType: this.kind, positionSeconds: currentTime, completed, player: "web", ...length };
    api.saveProgress(progress, unloading).catch(() => {}); // A failed save is not shown; the next one repeats it.
  }

  /** Changes the audio: within the session if it is a rendition there, otherwise by a new session. */
  selectAudio(streamIndex) {
    if (this.renditions?.selectAudio(streamIndex)) this.options.audio = streamIndex; // For the next session.
    else this.changeOptions({ audio: streamIndex });
  }

  /** After a change of the audio within the session. */
  showActiveAudio(streamIndex) {
    this.activeAudio = streamIndex;
    this.audioGroup?.select(streamIndex);
    this.controls.method.textContent = this.describe();
  }

  changeOptions(changes) {
    Object.assign(this.options, changes);
    this.startAt(this.restartPosition());
  }

  /** The position to restart at, at least 1 s before the end. Until the media is loaded its time is 0. */
  restartPosition() {
    const end = this.info.probe.durationSeconds ?? Infinity;
    return Math.max(0, Math.min(this.pendingPosition ?? this.media.currentTime, end - 1));
  }

  seek(position) {
    if (!this.media) return;
    if (this.media.readyState > 0) this.pendingPosition = null;
    this.media.currentTime = Math.max(0, Math.min(position, (this.media.duration || Infinity) - 0.2));
    this.media.play().catch(() => {});
  }

  /** Shows text subtitles at once. Bitmap subtitles are burned in by the server, so playback restarts. */
  selectSubtitle(subtitle) {
    this.subtitle = subtitle;
    const burn = subtitle && subtitle.kind !== "text" ? subtitle.streamIndex : null;
    this.showSelectedSubtitle();
    if (burn !== this.options.burn) this.changeOptions({ burn });
  }

  /** Shows the selected text subtitle: a rendition of the session, or as a file of its own if it is styled or no rendition. */
  showSelectedSubtitle() {
    const text = this.subtitle?.kind === "text" ? this.subtitle : null;
    const isRendition = this.renditions?.selectSubtitle(text && !isStyled(text) ? text : null);
    const ownSubtitle = isRendition ? null : text;
    if (ownSubtitle === this.ownSubtitle) return;
    this.ownSubtitle = ownSubtitle;
    showSubtitle(this.media, ownSubtitle, this.info.attachments, this.abort.signal).catch((error) => {
      if (this.ownSubtitle === ownSubtitle) this.ownSubtitle = null;
      this.showError(error);
    });
  }

  /** After a failure: tries conversion, MPEG-TS or a new session, otherwise shows the error. */
  async recover({ kind }) {
    const position = this.restartPosition();
    if (kind === "unsupported" && !this.session && !this.options.forceTranscode) {
      this.options.forceTranscode = true;
      this.startAt(position);
    } else if (kind === "unsupported" && this.capabilities && this.playback.decision?.format === "fmp4") {
      this.capabilities = null; // The browser promised too much.
      this.startAt(position);
    } else if (kind === "ended" && performance.now() - this.lastRestartAt > 10_000) {
      this.lastRestartAt = performance.now();
      this.startAt(position);
    } else {
      // Without a session, media info states why the file cannot be read any more.
      const error = await (this.session ? api.getSessionStatus(this.session).then((status) => status.error)
        : api.getMediaInfo(this.path, { deviceProfile: deviceProfile() }, this.abort.signal)).then((answer) => (answer?.code ? answer : null), (failure) => failure);
      if (error?.code === "OFFLINE") this.waitForServer();
      else this.showError(error ?? pageError(kind === "unsupported" ? TEXT.noFrames : TEXT.playbackFailed));
      this.media.addEventListener("playing", () => this.controls.showNotice(null), { once: true, signal: this.abort.signal });
    }
  }

  /** Says that the server cannot be reached, and starts again where playback is once it can. */
  waitForServer() {
    this.controls.showNotice(TEXT.retrying);
    clearInterval(this.retryTimer);
    this.retryTimer = setInterval(async () => {
      const isBack = await api.getHealth(this.abort.signal).then(() => true, () => false);
      if (!isBack || this.abort.signal.aborted) return;
      clearInterval(this.retryTimer);
      if (!this.info) this.open();
      else this.startAt(this.restartPosition());
    }, RETRY_MS);
  }

  showError(error) {
    if (error.name === "AbortError") return;
    this.controls.setWaiting(false);
    this.controls.showStatus("");
    this.controls.showNotice(errorText(error));
  }

  endSession(options) {
    const session = this.session;
    this.session = null;
    return session && api.endSession(session, options);
  }

  close(options) {
    this.generation += 1;
    this.abort.abort();
    clearInterval(this.retryTimer);
    this.controls.close();
    if (this.media) this.saveProgress({ immediately: true, completed: this.media.ended, unloading: options?.unloading });
    this.detach(); // First, so that nothing more is requested of the ended session.
    this.endSession(options);
  }
}
