// The player of one file. A change of quality or burned-in subtitles restarts it at the same position, and so does a change of
// audio in a session without renditions.

import * as api from "./api.js";
import { probeCapabilities } from "./capabilities.js";
import { Controls } from "./controls.js";
import { describeDecision, describeMethod, streamEntries } from "./decision.js";
import { h } from "./dom.js";
import { folderOf, libraryLink, nameOf, playLink, stem } from "./links.js";
import { deviceProfile } from "./profile.js";
import { attach } from "./media-source.js";
import { TEXT, errorText, reportDelay, waitText } from "./strings.js";
import {
  audioChoices, isStyled, needsVideoEncode, qualityChoices, rateChoices, selectMenu, selectMenuValue, showSubtitle, startedAudio, subtitleChoices,
} from "./tracks.js";

/** The next file is suggested this long before the end, seconds. */
const SUGGEST_NEXT_SECONDS = 20;
const SAVE_INTERVAL_MS = 10_000;

/** Titles of chapters that viewers may want to skip. */
const SKIPPABLE = /^(intro|opening|recap|credits|ending|outro|vorspann|abspann|rückblick)\b/i;

/** Plays the file at `path` in `stage`. */
export function showPlayer(stage, params) {
  const from = params.get("at");
  const player = new Player(stage, params.get("path") ?? "", from === null ? null : Number(from));
  player.open();
  return { leave: (options) => player.close(options), handleKey: (name) => player.handleKey(name) };
}

class Player {
  constructor(stage, path, startPosition) {
    this.path = path;
    this.startPosition = startPosition;
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
      backUrl: libraryLink(folderOf(path)),
      backLabel: TEXT.backToFolder,
      onSeek: (position) => this.seek(position),
      getStats: () => this.collectStats(),
    });
    stage.replaceChildren(this.controls.element);
    document.title = `${stem(nameOf(path))} – Hearthcast`;
  }

  async open() {
    try {
      const mediaInfo = api.getMediaInfo(this.path, deviceProfile(), this.abort.signal);
      const [info, capabilities] = await Promise.all([mediaInfo, probeCapabilities()]);
      this.capabilities = capabilities; // Without them the server makes MPEG-TS.
      this.setUpMedia(info);
      await this.startAt(this.startPosition ?? info.watchProgress?.resumePositionSeconds ?? 0);
      this.findNext();
    } catch (error) {
      this.showError(error);
    }
  }

  /** Creates the media element and the menus for the item. */
  setUpMedia(info) {
    const hasVideo = info.tracks.video.length > 0;
    this.info = info;
    this.kind = hasVideo ? "video" : "audio";
    this.media = h(this.kind, { playsinline: true, preload: "auto" });
    this.media.addEventListener("loadeddata", () => { this.pendingPosition = null; });
    this.media.addEventListener("timeupdate", () => this.onTimeUpdate());
    this.media.addEventListener("pause", () => this.saveProgress({ immediately: true }));
    this.media.addEventListener("ended", () => {
      this.saveProgress({ immediately: true, completed: true });
      if (this.next) location.replace(playLink(this.next.path));
    });
    const subtitles = subtitleChoices(info);
    const off = { value: "", label: TEXT.off, subtitle: null };
    this.audioMenu = selectMenu(TEXT.audio, audioChoices(info), ({ value }) => this.selectAudio(value));
    this.controls.setMedia({
      media: this.media,
      title: info.tags?.title,
      chapters: info.chapters ?? [],
      duration: info.probe.durationSeconds,
      menus: [
        this.audioMenu,
        hasVideo && selectMenu(TEXT.subtitles, [off, ...subtitles], ({ subtitle }) => this.selectSubtitle(subtitle)),
        hasVideo && selectMenu(TEXT.quality, qualityChoices(info, this.capabilities), ({ value }) => this.changeOptions({ resolution: value })),
        selectMenu(TEXT.speed, rateChoices(), ({ value }) => {
          this.media.defaultPlaybackRate = value;
          this.media.playbackRate = value;
        }),
      ],
    });
    const forced = subtitles.find(({ chosen }) => chosen);
    if (hasVideo && forced) this.subtitle = forced.subtitle;
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
      selectMenuValue(this.audioMenu, this.activeAudio);
      const description = this.describe();
      this.controls.showStatus(description);
      const onDelay = (seconds) => this.controls.showStatus([description, TEXT.preparingSince(seconds)].filter(Boolean).join(" · "));
      if (playback.sessionId) await reportDelay(onDelay, api.waitForPlaylist(playback.signedPlaylistUrl, this.abort.signal));
      this.controls.showStatus(description);
      if (generation !== this.generation) return;
      const { detach, renditions } = await attach(this.media, playback, position, (failure) => this.recover(failure));
      if (generation !== this.generation) {
        detach();
        return;
      }
      [this.detach, this.renditions] = [detach, renditions];
      if (renditions) {
        renditions.onAudioChange = (streamIndex) => this.showActiveAudio(streamIndex);
        renditions.onCues = () => this.controls.placeSubtitles();
      }
      this.showSelectedSubtitle();
      await this.media.play().catch(() => {}); // The browser may require a click first.
    } catch (error) {
      if (generation === this.generation) this.showError(error);
    }
  }

  /** Whether the quality may adapt to the bandwidth: only where the video is encoded anyway and no quality was chosen. */
  canAdapt() {
    const { burn, resolution } = this.options;
    return this.kind === "video" && resolution === "original" && (burn !== null || needsVideoEncode(this.info, this.capabilities));
  }

  /** The current playback in a few words. */
  describe() {
    return this.playback.playbackMode === "direct" ? TEXT.directPlay : describeDecision(this.playback.decision, this.activeAudio);
  }

  /** Finds the next file of the same kind in the folder. */
  async findNext() {
    const page = await api.listFolder(folderOf(this.path)).catch(() => null);
    const files = page?.entries.filter(({ mediaKind }) => mediaKind === this.kind) ?? [];
    const index = files.findIndex(({ path }) => path === this.path);
    this.next = index >= 0 ? files[index + 1] : null;
    if (this.next) {
      const { path, name } = this.next;
      this.controls.extraButtons.replaceChildren(h("button", { type: "button", title: TEXT.nextTitle(stem(name)), onclick: () => location.replace(playLink(path)) }, TEXT.next));
    }
  }

  onTimeUpdate() {
    this.saveProgress();
    const { currentTime, duration } = this.media;
    const chapter = this.info.chapters?.find(({ startSeconds, endSeconds }) => startSeconds <= currentTime && currentTime < endSeconds - 1);
    const skippable = chapter?.title && SKIPPABLE.test(chapter.title) ? chapter : null;
    const suggested = this.next && duration > 2 * SUGGEST_NEXT_SECONDS && duration - currentTime < SUGGEST_NEXT_SECONDS ? this.next : null;
    if (suggested) {
      const remaining = Math.ceil(duration - currentTime);
      this.controls.showSuggestion(TEXT.nextIn(remaining, stem(suggested.name)), () => location.replace(playLink(suggested.path)), "next");
    } else if (skippable) this.controls.showSuggestion(TEXT.skip(skippable.title), () => this.seek(skippable.endSeconds), "skip");
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
    selectMenuValue(this.audioMenu, streamIndex);
    this.controls.showStatus(this.describe());
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
  async recover({ kind, detail }) {
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
      // Without a session, media info tells why the file cannot be read any more.
      const status = this.session ? await api.getSessionStatus(this.session).catch((error) => ({ error }))
        : await api.getMediaInfo(this.path, deviceProfile(), this.abort.signal).then(() => null, (error) => ({ error }));
      this.showError(status?.error ?? new Error(`Playback failed (${detail ?? kind}).`));
      this.media.addEventListener("playing", () => this.controls.showNotice(null), { once: true }); // E.g. the server is back.
    }
  }

  /** The playback info. */
  async collectStats() {
    const { media, session, playback, info } = this;
    if (!media) return [];
    const frames = media.getVideoPlaybackQuality?.();
    const bufferedEnd = [...Array(media.buffered.length).keys()].map((n) => media.buffered.end(n)).find((end) => end >= media.currentTime);
    const status = session && (await api.getSessionStatus(session).catch(() => null));
    const diagnostics = status?.diagnostics;
    return [
      ["Play method", playback && describeMethod(playback)],
      ...streamEntries(playback?.decision, info.streams),
      ["Resolution", media.videoWidth > 0 && `${media.videoWidth}×${media.videoHeight}`],
      ["File", [info.probe.container, ...info.streams.map(({ codec }) => codec)].join(", ")],
      ["Buffered", bufferedEnd !== undefined && `${Math.round(bufferedEnd - media.currentTime)} s`],
      ["Dropped frames", frames && `${frames.droppedVideoFrames} of ${frames.totalVideoFrames}`],
      ["Encoder", diagnostics?.encoder],
      ["Conversion speed", diagnostics?.speed && `${diagnostics.speed.toFixed(1)}×`],
    ];
  }

  showError(error) {
    if (error.name === "AbortError") return;
    this.controls.setWaiting(false);
    this.controls.showNotice(errorText(error));
  }

  handleKey(name) {
    return this.controls.handleKey(name);
  }

  endSession(options) {
    const session = this.session;
    this.session = null;
    return session && api.endSession(session, options);
  }

  close(options) {
    this.generation += 1;
    this.abort.abort();
    this.controls.close();
    if (this.media) this.saveProgress({ immediately: true, completed: this.media.ended, unloading: options?.unloading });
    this.detach(); // First, so that nothing more is requested of the ended session.
    this.endSession(options);
  }
}
