// The audiobook player: a file, or a folder of files as one timeline.

import * as api from "./api.js";
import { probeCapabilities } from "./capabilities.js";
import { choiceGroup } from "./choices.js";
import { Controls } from "./controls.js";
import { h, icon, tint } from "./dom.js";
import { formatClock, formatLength, formatTime, reportDelay } from "./format.js";
import { bookLink, libraryLink, nameOf } from "./links.js";
import { attach } from "./media-source.js";
import { deviceProfile } from "./profile.js";
import { SleepTimer } from "./sleep-timer.js";
import { TEXT, errorText, pageError, waitText } from "./strings.js";
import { rateChoices } from "./tracks.js";

const RATES = [0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3];

/** The next file is opened this long before the current one ends, seconds. */
const PRELOAD_SECONDS = 20;
/** A second failure within this time is shown instead of retried. */
const MIN_RETRY_INTERVAL_MS = 10_000;
const SAVE_INTERVAL_MS = 10_000;

/** From this width on, the chapters are shown beside the cover, CSS pixels. */
const WIDE_PX = 900;

/** Earlier positions to keep while the window is open. */
const MAX_HISTORY = 10;
const historyKey = (mediaId) => `hearthcast.past.${mediaId}`;

function loadHistory(mediaId) {
  try {
    return JSON.parse(sessionStorage.getItem(historyKey(mediaId))) ?? [];
  } catch {
    return [];
  }
}

function storeHistory(mediaId, history) {
  try {
    sessionStorage.setItem(historyKey(mediaId), JSON.stringify(history));
  } catch {
    // Without storage they are kept while the book is open.
  }
}

export async function showBook(stage, params) {
  const abort = new AbortController();
  const audiobook = await api.getAudiobook(params.get("path") ?? "", abort.signal);
  const player = new BookPlayer(stage, audiobook, abort);
  const resume = audiobook.progress && !audiobook.progress.completed ? audiobook.progress.positionSeconds : 0;
  player.seekTo(resume, { play: true });
  return {
    leave: (options) => player.close(options),
    handleKey: (name) => player.controls.handleKey(name),
    getAddress: () => bookLink(audiobook.audiobookPath),
    keepsPlaying: () => player.controls.keepsPlaying(),
    setMini(isMini) {
      player.isMini = isMini;
      player.controls.setMini(isMini);
      if (!isMini) player.updatePlayButton();
    },
  };
}

class BookPlayer {
  constructor(stage, audiobook, abort) {
    this.book = audiobook;
    this.abort = abort;
    this.generation = 0;
    this.lastSavedAt = 0;
    this.lastSaved = "";
    this.isMini = false;
    this.lastRetryAt = -Infinity;
    this.position = 0;
    this.rate = audiobook.progress?.playbackRate ?? 1;
    this.part = null; // The file that plays: { index, file, audio, pendingOffset, detach, session }.
    this.preloaded = null; // The next file, already opened.
    this.failedPreload = null; // The index of the file that could not be opened ahead.
    this.history = loadHistory(audiobook.mediaId); // The position before each jump, oldest first: { position, at }.
    this.sleepTimer = new SleepTimer(audiobook.chapters, () => ({ position: this.position, rate: this.rate, file: this.part?.file }));
    this.undoButton = h("button", { type: "button", class: "text-button", hidden: true, onclick: () => this.returnTo(this.history.length - 1) });
    this.historyList = h("ol", { class: "chapters" });
    this.controls = new Controls({
      title: audiobook.title,
      backUrl: libraryLink("audiobook"), backLabel: TEXT.backTo(TEXT.kindNames.audiobook),
      onSeek: (position, options) => this.jumpTo(position, options),
      getTimes: () => ({ position: this.position, start: 0, end: audiobook.durationSeconds }),
      getInfo: () => [[TEXT.info.file, this.part ? nameOf(this.part.file.path) : ""]],
      getAddress: () => bookLink(audiobook.audiobookPath),
      play: () => this.play(),
      keys: { "<": () => this.stepRate(-1), ">": () => this.stepRate(1) },
    });
    this.arrange();
    stage.replaceChildren(this.controls.element);
    // Positions that the server kept when another device started over by mistake.
    for (const { positionSeconds, at } of audiobook.progress?.positionHistory?.toReversed() ?? []) {
      if (!this.history.some((entry) => entry.at === at)) this.history.push({ position: positionSeconds, at });
    }
    this.history.sort((a, b) => a.at.localeCompare(b.at));
    this.updateHistory();
  }

  /** Adds what only audiobooks have to the controls. */
  arrange() {
    const { controls, book } = this;
    controls.element.classList.add("book-player");
    controls.line.classList.add("now-chapter");
    controls.line.setAttribute("role", "status");
    controls.panels.add("history", "undo", TEXT.history, this.historyList);
    controls.extraButtons.append(this.undoButton, this.sleepTimer.display, controls.panels.button("history"));
    this.rateGroup = choiceGroup(TEXT.speed, rateChoices(this.rate, RATES), ({ value }) => this.setSpeed(value));
    controls.setSettings(this.rateGroup, this.sleepTimer.group);
    controls.frame.append(h("div", { class: "cover", style: tint(book.title) }, icon("book")));
    controls.setChapters(book.chapters, book.durationSeconds);
    controls.element.classList.add("audio-only");
    if (book.chapters.length > 1 && innerWidth >= WIDE_PX) controls.panels.setHome("chapters");
  }

  showTitle() {
    document.title = `${this.book.title} – Hearthcast`;
  }

  /** The index of the file that contains a position of the book. */
  fileIndexAt(position) {
    const { files } = this.book;
    const following = files.findIndex(({ startSeconds }) => startSeconds > position);
    return following === -1 ? files.length - 1 : Math.max(0, following - 1);
  }

  /** Goes to a position: at once in the current file, otherwise after opening the file that contains it. */
  async seekTo(position, { play }) {
    const end = this.book.durationSeconds;
    const target = Math.min(Math.max(0, position), Math.max(0, end - 0.5));
    const index = this.fileIndexAt(target);
    const offset = target - this.book.files[index].startSeconds;
    const generation = ++this.generation;
    this.sleepTimer.onJump(target);
    this.showPosition(target);
    if (this.part?.index === index) {
      this.part.audio.currentTime = offset;
      if (play) this.part.audio.play().catch(() => {});
      return;
    }
    try {
      const part = this.preloaded?.index === index ? this.preloaded : await this.openPart(index, offset);
      if (generation !== this.generation) {
        if (part !== this.preloaded) this.closePart(part);
        return;
      }
      this.replacePart(part);
      if (part.audio.readyState > 0 && Math.abs(part.audio.currentTime - offset) > 0.5) part.audio.currentTime = offset;
      if (play) await part.audio.play().catch(() => {}); // The browser may require a click first.
    } catch (error) {
      if (generation === this.generation) this.showError(error);
    }
  }

  /** Opens a file in an audio element of its own. */
  async openPart(index, offset, { forceTranscode = false, usesMpegTs = false } = {}) {
    const file = this.book.files[index];
    // Preloading shows no status.
    const showStatus = (text) => {
      if (!this.part || this.part.index !== index - 1 || !this.isPreloading) this.controls.showStatus(text);
    };
    showStatus(TEXT.preparing);
    const capabilities = usesMpegTs ? null : await probeCapabilities();
    const playback = await api.startPlayback({
      mediaPath: file.path, startPositionSeconds: Math.min(offset, Math.max(0, file.durationSeconds - 0.1)),
      deviceProfile: deviceProfile(), forceTranscode, ...(capabilities && { capabilities }),
    }, (error) => showStatus(error ? waitText(error) : TEXT.preparing), this.abort.signal);
    const audio = h("audio", { preload: "auto" });
    audio.preservesPitch = true;
    // `pendingOffset`: where it starts once the audio is loaded. Until then the audio's time is 0.
    const part = { index, file, audio, pendingOffset: offset, session: playback.sessionId ? playback : null, detach: () => {} };
    try {
      if (part.session) await reportDelay((seconds) => showStatus(TEXT.preparingSince(seconds)), api.waitForPlaylist(playback.signedPlaylistUrl, this.abort.signal));
      showStatus("");
      ({ detach: part.detach } = await attach(audio, playback, offset, (failure) => this.recover(part, failure, forceTranscode)));
    } catch (error) {
      if (part.session) api.endSession(part.session);
      throw error;
    }
    audio.addEventListener("loadeddata", () => { part.pendingOffset = null; });
    audio.defaultPlaybackRate = this.rate;
    audio.playbackRate = this.rate;
    audio.addEventListener("timeupdate", () => part === this.part && this.onTimeUpdate());
    audio.addEventListener("ended", () => part === this.part && this.onEnded());
    audio.addEventListener("play", () => part === this.part && this.updatePlayButton());
    audio.addEventListener("pause", () => {
      if (part !== this.part) return;
      this.updatePlayButton();
      if (!audio.ended) this.saveProgress({ immediately: true });
    });
    return part;
  }

  /** Replaces the current part. */
  replacePart(part) {
    const previous = this.part;
    this.part = part;
    if (this.preloaded === part) this.preloaded = null;
    if (this.preloaded) {
      this.closePart(this.preloaded);
      this.preloaded = null;
    }
    const { book } = this;
    this.controls.setMedia({ media: part.audio, title: book.title, artist: book.author, chapters: book.chapters, duration: book.durationSeconds, fallbackIcon: "book" });
    this.shownChapter = -1;
    this.showPosition(this.position);
    part.audio.playbackRate = this.rate;
    if (previous) this.closePart(previous);
    this.controls.showNotice(null);
    this.updatePlayButton();
  }

  closePart(part) {
    part.audio.pause();
    part.detach();
    if (part.session) api.endSession(part.session);
  }

  onTimeUpdate() {
    const { audio, file, index } = this.part;
    if (audio.seeking || audio.readyState < 2) return;
    this.showPosition(file.startSeconds + audio.currentTime);
    this.saveProgress();
    const { files } = this.book;
    if (index + 1 < files.length && file.durationSeconds - audio.currentTime < PRELOAD_SECONDS && !this.preloaded && !this.isPreloading
      && this.failedPreload !== index + 1 && !this.sleepTimer.isDue(file.startSeconds + file.durationSeconds)) {
      this.isPreloading = true;
      this.openPart(index + 1, 0).then((part) => {
        if (this.part?.index === index && !this.abort.signal.aborted) this.preloaded = part;
        else this.closePart(part);
      }).catch(() => { this.failedPreload = index + 1; }).finally(() => { this.isPreloading = false; });
    }
    if (!audio.ended && this.sleepTimer.isDue(this.position)) this.stopForSleep(); // When the file has ended, `onEnded` decides.
  }

  /** At the end of a file, plays the next one, stops for the sleep timer, or completes the book. */
  onEnded() {
    const next = this.book.files[this.part.index + 1];
    if (next && !this.sleepTimer.isDue(next.startSeconds)) {
      this.seekTo(next.startSeconds, { play: true });
      return;
    }
    this.showPosition(next?.startSeconds ?? this.book.durationSeconds);
    this.saveProgress({ immediately: true, completed: !next });
    this.stopForSleep();
    this.updatePlayButton();
  }

  showPosition(position) {
    this.position = position;
    if (this.part) this.controls.updateTimeline();
    const index = this.chapterIndexAt(position);
    if (index === this.shownChapter) return;
    this.shownChapter = index;
    this.controls.line.textContent = this.book.chapters[index]?.title ?? TEXT.chapter(index + 1);
  }

  chapterIndexAt(position) {
    const following = this.book.chapters.findIndex(({ startSeconds }) => startSeconds > position + 0.01);
    return following === -1 ? this.book.chapters.length - 1 : Math.max(0, following - 1);
  }

  /** Goes to a position the listener chose. A jump over more than 5 s can be undone and is added to the history. */
  jumpTo(position, { isStep = false } = {}) {
    const isLong = !isStep && Math.abs(position - this.position) > 5;
    if (isLong) this.history.push({ position: this.position, at: new Date().toISOString() });
    this.seekTo(position, { play: !this.part || !this.part.audio.paused || !isStep });
    if (!isLong) return;
    this.updateHistory();
    this.undoButton.textContent = TEXT.undoJump(formatClock(this.history.at(-1).position));
    this.undoButton.hidden = false;
  }

  /** Returns to a position of the history. */
  returnTo(index) {
    const [{ position }] = this.history.splice(index, 1);
    this.updateHistory();
    this.undoButton.hidden = true;
    this.seekTo(position, { play: true });
  }

  /** Trims, stores and lists the history, the latest first. */
  updateHistory() {
    this.history = this.history.slice(-MAX_HISTORY);
    this.historyList.replaceChildren(...this.history.map(({ position, at }, index) => h("li", {},
      h("button", { type: "button", class: "chapter", onclick: () => {
        this.controls.panels.close();
        this.returnTo(index);
      } }, h("span", {}, `${formatClock(position)} · ${this.book.chapters[this.chapterIndexAt(position)]?.title ?? ""}`), h("span", { class: "muted" }, formatTime(at))))).reverse());
    this.controls.panels.setHidden("history", this.history.length === 0);
    storeHistory(this.book.mediaId, this.history);
  }

  /** Plays from the current position. After a stop at the end of a file, that is the start of the next one. */
  play() {
    if (this.sleepTimer.hasRunOut()) this.sleepTimer.switchOff(); // During the pause.
    const { audio, index } = this.part ?? {};
    if (!audio || (audio.ended && this.fileIndexAt(this.position) !== index)) this.seekTo(this.position, { play: true });
    else audio.play().catch(() => {});
  }

  updatePlayButton() {
    this.controls.updatePlayButton();
    if (this.isMini) return;
    const remaining = this.book.durationSeconds - this.position;
    document.title = remaining > 1 ? `${this.book.title} (${TEXT.left(formatLength(remaining))}) – Hearthcast` : `${this.book.title} – Hearthcast`;
  }

  stepRate(step) {
    const index = Math.max(0, RATES.indexOf(this.rate)) + step;
    if (RATES[index] === undefined) return;
    this.setSpeed(RATES[index]);
    this.controls.showBubble(TEXT.rate(RATES[index]));
  }

  setSpeed(rate) {
    this.rate = rate;
    this.rateGroup.select(rate);
    for (const part of [this.part, this.preloaded]) if (part) part.audio.playbackRate = rate;
    this.saveProgress({ immediately: true });
  }

  stopForSleep() {
    this.sleepTimer.switchOff();
    this.part.audio.pause();
  }

  /** Saves the position in the book: every ten seconds, or immediately. */
  saveProgress({ immediately = false, completed = false, unloading = false } = {}) {
    const now = performance.now();
    if (!api.isSignedIn() || (!immediately && now - this.lastSavedAt < SAVE_INTERVAL_MS)) return;
    // Nothing changed: do not overwrite what another device has saved since.
    const snapshot = `${Math.round(2 * this.position)} ${this.rate} ${completed}`;
    if (snapshot === this.lastSaved) return;
    [this.lastSavedAt, this.lastSaved] = [now, snapshot];
    api.saveAudiobookProgress({
      audiobookPath: this.book.audiobookPath, positionSeconds: this.position, durationSeconds: this.book.durationSeconds,
      playbackRate: this.rate, completed, player: "web",
    }, unloading).catch(() => {}); // A failed save is not shown; the next one repeats it.
  }

  /** Reopens a file that failed, converted if its format is unsupported; shows the second failure. */
  async recover(part, { kind }, wasForced) {
    if (part === this.preloaded) {
      this.preloaded = null;
      this.failedPreload = part.index;
      this.closePart(part);
    } else if (part === this.part && !wasForced && performance.now() - this.lastRetryAt > MIN_RETRY_INTERVAL_MS) {
      this.lastRetryAt = performance.now();
      const offset = part.pendingOffset ?? part.audio.currentTime;
      const generation = ++this.generation;
      try {
        // Without capabilities the server converts to MPEG-TS.
        const isUnsupported = kind === "unsupported";
        const reopened = await this.openPart(part.index, offset, { forceTranscode: isUnsupported, usesMpegTs: isUnsupported && part.session !== null });
        if (generation !== this.generation) return this.closePart(reopened);
        this.replacePart(reopened);
        await reopened.audio.play().catch(() => {});
      } catch (error) {
        this.showError(error);
      }
    } else this.showError(pageError(kind === "unsupported" ? TEXT.noFrames : TEXT.playbackFailed));
  }

  showError(error) {
    if (error.name === "AbortError") return;
    this.controls.showStatus("");
    this.controls.showNotice(errorText(error));
  }

  close(options) {
    this.generation += 1;
    this.abort.abort();
    this.sleepTimer.close();
    const hasStarted = this.part && this.position > 0;
    if (hasStarted && !this.part.audio.ended) this.saveProgress({ immediately: true, unloading: options?.unloading });
    for (const part of [this.part, this.preloaded]) if (part) this.closePart(part);
    this.part = null;
    this.preloaded = null;
    this.controls.close();
  }
}
