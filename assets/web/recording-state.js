// Recordings and series rules, as the marks and buttons of programmes show them.

import * as api from "./api.js";
import { h } from "./dom.js";
import { TEXT } from "./strings.js";

/** States in which a recording can be cancelled. */
export const CANCELLABLE = new Set(["scheduled", "recording"]);

const keyOf = (channelId, entryId) => `${channelId} ${entryId}`;

/** The mark of a programme that is recorded, alone (`single`) or by a series rule (`series`). */
export const recordingMark = (kind) => h("span", { class: kind === "series" ? "dot series" : "dot", role: "img", "aria-label": kind === "series" ? TEXT.seriesMark : TEXT.recordingMark });

/** The title of a series as the server compares it. */
const titleKey = (channelId, title) => `${channelId} ${title.trim().toLowerCase()}`;

export class RecordingState {
  constructor() {
    this.isEnabled = false;
    this.recordings = new Map(); // Active ones by channel and guide entry.
    this.rules = new Map(); // By channel and title.
  }

  /** Loads what other devices changed too; after a failure it stays as it was. */
  async load(signal) {
    const answer = await api.getRecordings(signal).catch(() => null);
    if (!answer || signal?.aborted) return;
    this.isEnabled = answer.enabled;
    this.recordings = new Map(answer.recordings.filter(({ state, entryId }) => entryId && CANCELLABLE.has(state))
      .map((recording) => [keyOf(recording.channelId, recording.entryId), recording]));
    this.rules = new Map(answer.series.map((rule) => [titleKey(rule.channelId, rule.title), rule]));
  }

  /** The active recording of a guide entry, or null. */
  recordingOf(channelId, { id }) {
    return this.recordings.get(keyOf(channelId, id)) ?? null;
  }

  /** The series rule that records programmes with this title, or null. */
  ruleOf(channelId, { title }) {
    return this.rules.get(titleKey(channelId, title)) ?? null;
  }

  /**
   * How a programme or its parts are recorded: `single`, `series` by a rule, or null. A rule for new episodes skips repeats.
   * @returns {"single" | "series" | null}
   */
  markOf(channelId, entry) {
    const recording = (entry.parts ?? [entry]).map((part) => this.recordingOf(channelId, part)).find(Boolean);
    if (recording) return recording.seriesId ? "series" : "single";
    const rule = entry.endMs > Date.now() ? this.ruleOf(channelId, entry) : null;
    return rule && !(rule.newOnly && entry.isNew === false) ? "series" : null;
  }

  setRecording(channelId, entry, recording) {
    if (recording) this.recordings.set(keyOf(channelId, entry.id), recording);
    else this.recordings.delete(keyOf(channelId, entry.id));
  }

  addRule(rule) {
    this.rules.set(titleKey(rule.channelId, rule.title), rule);
  }
}
