// The sleep timer of an audiobook: playback stops after some minutes, or at the end of the chapter.

import { TEXT } from "./strings.js";
import { ChoiceGroup } from "./choices.js";
import { h } from "./dom.js";
import { formatClock } from "./format.js";

const MINUTES = [15, 30, 45, 60];

/** Playback stops this long before the end of a chapter, at normal speed: `timeupdate` comes four times a second. */
const TOLERANCE_SECONDS = 0.3;

export class SleepTimer {
  /** `getPlayback()` returns the position in the book, the rate and the file that plays. */
  constructor(chapters, getPlayback) {
    this.chapters = chapters;
    this.getPlayback = getPlayback;
    this.endsAt = null; // On the clock of the page, ms.
    this.chapterEnd = null; // In the book, seconds.
    this.display = h("span", { class: "muted sleep-left", title: TEXT.sleepTimer, role: "timer" }); // The time left.
    this.displayTimer = setInterval(() => this.showTimeLeft(), 1000);
    this.group = new ChoiceGroup(TEXT.sleepTimer, [
      { value: 0, label: TEXT.off }, ...MINUTES.map((n) => ({ value: n, label: TEXT.minutes(n) })), { value: -1, label: TEXT.chapterEnd },
    ], ({ value }) => this.set(value));
  }

  /** 0 switches it off, -1 is the end of the chapter. */
  set(minutes) {
    this.endsAt = minutes > 0 ? performance.now() + minutes * 60_000 : null;
    this.chapterEnd = minutes < 0 ? this.chapterEndAfter(this.getPlayback().position) : null;
  }

  switchOff() {
    this.set(0);
    this.group.select(0);
  }

  showTimeLeft() {
    const { position, rate } = this.getPlayback();
    const seconds = this.endsAt !== null ? (this.endsAt - performance.now()) / 1000 : this.chapterEnd !== null ? (this.chapterEnd - position) / rate : NaN;
    const text = Number.isFinite(seconds) ? formatClock(seconds) : "";
    if (this.display.textContent !== text) this.display.textContent = text;
  }

  close() {
    clearInterval(this.displayTimer);
  }

  /** After a jump the end of the chapter is that of the chapter at the new position. */
  onJump(position) {
    if (this.chapterEnd !== null) this.chapterEnd = this.chapterEndAfter(position);
  }

  /** Where the chapter at `position` ends. The last one ends with the book, which stops by itself. */
  chapterEndAfter(position) {
    const tolerance = TOLERANCE_SECONDS * this.getPlayback().rate;
    return this.chapters.find(({ startSeconds }) => startSeconds > position + tolerance)?.startSeconds ?? Infinity;
  }

  /** Whether the minutes are over. */
  hasRunOut() {
    return this.endsAt !== null && performance.now() >= this.endsAt;
  }

  /** Whether playback stops at `position`, in the file that plays. */
  isDue(position) {
    if (this.chapterEnd === null) return this.hasRunOut();
    const { rate, file } = this.getPlayback();
    // After a jump back this file plays until an earlier one is open, and the chapter ends in that one.
    return this.chapterEnd > file.startSeconds && position >= this.chapterEnd - TOLERANCE_SECONDS * rate;
  }
}
