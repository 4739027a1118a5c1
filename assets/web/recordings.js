// Recordings: what is recorded and scheduled, series rules, and conflicts to resolve.

import * as api from "./api.js";
import { h, icon } from "./dom.js";
import { recordingsLink } from "./links.js";
import { RecordingArtwork } from "./recording-artwork.js";
import { conflictCard, createRow, ruleRow, updateRow } from "./recording-rows.js";
import { openSeriesDialog } from "./record-button.js";
import { CANCELLABLE } from "./recording-state.js";
import { poll } from "./widgets.js";
import { TEXT, errorText } from "./strings.js";

const POLL_MS = 5000;

/** Which recordings each tab has, and in which order. */
const TABS = {
  recorded: ({ state }) => state !== "scheduled",
  scheduled: ({ state }) => state === "scheduled",
  series: () => false,
};

export async function showRecordings(stage, params) {
  document.title = `${TEXT.recordings} – Hearthcast`;
  const { user } = await api.getCurrentUser();
  const screen = new Recordings(stage, TABS[params.get("tab")] ? params.get("tab") : "recorded", user.role === "admin");
  await screen.open();
  return { leave: () => screen.abort.abort() };
}

class Recordings {
  constructor(stage, tab, isAdmin) {
    this.stage = stage;
    this.tab = tab;
    this.isAdmin = isAdmin;
    this.channels = null; // Those of the first answer.
    this.abort = new AbortController();
    this.artwork = new RecordingArtwork(this.abort.signal, () => this.render());
    this.rows = new Map(); // By id and state, in their order.
    this.notice = h("p", { class: "notice", role: "alert", hidden: true });
    this.conflicts = h("div", {});
    this.list = h("ul", { class: "recordings" });
    this.empty = h("div", { class: "empty-state", hidden: true });
    this.offNote = h("p", { class: "muted" });
    this.tabs = h("nav", { class: "tabs", "aria-label": TEXT.recordings }, ...Object.keys(TABS).map((name) =>
      h("a", { href: recordingsLink(name), "data-tab": name, "aria-current": name === tab ? "page" : null, "data-first": name === tab || null }, TEXT.recordingTabs[name])));
  }

  async open() {
    await this.refresh();
    this.stage.replaceChildren(
      h("div", { class: "heading" }, h("h1", {}, TEXT.recordings),
        this.isAdmin && this.answer.enabled && h("button", { type: "button", class: "add-series", onclick: () => this.addSeries() }, icon("plus"), TEXT.addSeries)),
      this.tabs, this.notice, this.offNote, this.conflicts, this.list, this.empty);
    poll(POLL_MS, this.abort.signal, (error) => this.showError(error), () => this.refresh());
  }

  showError(error) {
    this.notice.textContent = error ? errorText(error) : "";
    this.notice.hidden = !error;
  }

  /** Runs a press; shows its error, or what it changed. */
  act = async (work) => {
    this.showError(null);
    try {
      await work();
    } catch (error) {
      this.showError(error);
      return;
    }
    await this.refresh().catch(() => {}); // The poll shows a refresh that keeps failing.
  };

  async refresh() {
    const answer = await api.getRecordings(this.abort.signal);
    if (this.abort.signal.aborted) return;
    this.answer = answer;
    this.channels ??= await api.getChannels({}, this.abort.signal).then(({ channels }) => channels, () => []);
    this.artwork.request(answer.recordings);
    this.render();
  }

  render() {
    const { recordings, series } = this.answer;
    const counts = { recorded: recordings.filter(TABS.recorded).length, scheduled: recordings.filter(TABS.scheduled).length, series: series.length };
    for (const link of this.tabs.children) {
      const { tab } = link.dataset;
      const text = counts[tab] > 0 ? `${TEXT.recordingTabs[tab]} (${counts[tab]})` : TEXT.recordingTabs[tab];
      if (link.textContent !== text) link.textContent = text;
    }
    this.renderConflicts(recordings);
    const shown = this.tab === "series" ? this.seriesRows(series) : this.recordingRows(recordings);
    this.showRows(shown);
    this.empty.hidden = shown.length > 0;
    this.offNote.textContent = !this.answer.enabled && this.empty.hidden ? TEXT.recordingOff : "";
    if (this.empty.hidden || this.empty.firstChild) return;
    this.empty.append(icon("tv"), h("p", {}, this.answer.enabled ? TEXT.emptyRecordings[this.tab] : TEXT.recordingOff), h("a", { class: "button", href: "#/guide" }, TEXT.guide));
  }

  recordingRows(recordings) {
    const isSoonFirst = this.tab === "scheduled";
    const shown = recordings.filter(TABS[this.tab]);
    // The latest first; what is being recorded, then what is recorded, then what failed.
    const rank = ({ state }) => ["recording", "complete"].indexOf(state) + 1 || 3;
    shown.sort((a, b) => (isSoonFirst ? a.start.localeCompare(b.start) : rank(a) - rank(b) || b.start.localeCompare(a.start)));
    return shown.map((recording) => ({
      key: `${recording.id} ${recording.state} ${this.artwork.of(recording) ? "art" : ""}`,
      create: () => createRow(recording, { act: this.act, isAdmin: this.isAdmin, artwork: this.artwork.of(recording) }),
      update: (row) => updateRow(row, recording, CANCELLABLE.has(recording.state) ? recordings.filter(({ id }) => recording.conflicts.includes(id)) : []),
    }));
  }

  seriesRows(rules) {
    const next = (rule) => this.answer.recordings.filter(({ seriesId, state }) => seriesId === rule.id && state === "scheduled").at(-1);
    return rules.map((rule) => ({
      key: JSON.stringify([rule, next(rule)?.start]),
      create: () => ruleRow(rule, { act: this.act, isAdmin: this.isAdmin, channel: this.channels.find(({ id }) => id === rule.channelId), next: next(rule) }),
      update: () => {},
    }));
  }

  /** Rows keep their elements, and so the focus and a confirmation that was begun. */
  showRows(shown) {
    const rows = new Map();
    for (const { key, create, update } of shown) {
      const row = this.rows.get(key) ?? create();
      update(row);
      rows.set(key, row);
    }
    const focusedKey = [...this.rows].find(([, row]) => row.contains(document.activeElement))?.[0];
    for (const [key, row] of this.rows) if (rows.get(key) !== row) row.remove();
    [...rows.values()].forEach((row, n) => {
      if (this.list.children[n] !== row) this.list.insertBefore(row, this.list.children[n] ?? null);
    });
    this.rows = rows;
    if (focusedKey && !rows.has(focusedKey) && document.activeElement === document.body) (this.list.querySelector("a, button") ?? this.tabs.querySelector("[aria-current]")).focus();
  }

  renderConflicts(recordings) {
    const groups = conflictGroups(recordings.filter(({ state }) => CANCELLABLE.has(state)));
    const key = JSON.stringify(groups.map((group) => group.map(({ id }) => id)));
    if (this.conflicts.dataset.shown === key) return;
    this.conflicts.dataset.shown = key;
    this.conflicts.replaceChildren(...groups.map((group) => conflictCard(group, { act: this.act, isAdmin: this.isAdmin })));
  }

  addSeries() {
    openSeriesDialog(this.channels.filter(({ onDemand }) => !onDemand), () => this.act(async () => {}));
  }
}

/** Recordings that are in the way of each other, in groups. */
export function conflictGroups(recordings) {
  const byId = new Map(recordings.map((recording) => [recording.id, recording]));
  const groups = [];
  const seen = new Set();
  for (const { id } of recordings) {
    const group = [];
    const open = [id];
    while (open.length > 0) {
      const recording = byId.get(open.pop());
      if (!recording || seen.has(recording.id)) continue;
      seen.add(recording.id);
      group.push(recording);
      open.push(...recording.conflicts);
    }
    if (group.length > 1) groups.push(group.sort((a, b) => a.start.localeCompare(b.start)));
  }
  return groups;
}
