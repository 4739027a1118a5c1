// Recordings: scheduled, running and finished ones, and series rules.

import * as api from "./api.js";
import { h } from "./dom.js";
import { playLink } from "./links.js";
import { confirmButton, liveTable, poll, table } from "./widgets.js";
import { formatClock, formatDay, formatSize, formatTime } from "./format.js";
import { TEXT, errorText } from "./strings.js";

const POLL_MS = 5000;

/** States in which a recording can be cancelled. */
const CANCELLABLE = new Set(["scheduled", "recording"]);

export async function recordingTab(container, { act, user, signal, showError }) {
  const isAdmin = user.role === "admin";
  const runAndRefresh = (work) => {
    showError(null);
    return work().then(() => refresh().catch(() => {}), showError); // The poll shows a refresh that keeps failing.
  };
  const list = liveTable([TEXT.title, TEXT.channel, TEXT.when, TEXT.status, "", ""], TEXT.noRecordings, ({ id, state }) => `${id} ${state}`,
    ({ id, title, subtitle, channelName, start, end, state, path, ...details }, isUpdate) => [
      isUpdate ? null : path && !CANCELLABLE.has(state) || state === "recording" && path
        ? h("a", { href: playLink(path) }, [title, subtitle].filter(Boolean).join(" · ")) : [title, subtitle].filter(Boolean).join(" · "),
      channelName ?? "", `${formatDay(start)}, ${formatTime(start)}–${formatTime(end)}`, statusText(state, details),
      isUpdate || !isAdmin ? null : CANCELLABLE.has(state) ? confirmButton(runAndRefresh, () => api.deleteRecording(id), TEXT.cancel, TEXT.confirmCancel)
        : confirmButton(runAndRefresh, () => api.deleteRecording(id), TEXT.removeFromList),
      isUpdate || !isAdmin || !path || CANCELLABLE.has(state) ? null : confirmButton(runAndRefresh, () => api.deleteRecording(id, "delete"), TEXT.deleteFile, TEXT.confirmRemove)]);
  const seriesRules = h("div", {});
  container.replaceChildren(isAdmin ? h("p", { class: "muted" }, TEXT.recordingsWhy) : "", list.element, seriesRules);
  const refresh = async () => {
    const { recordings, series } = await api.getRecordings(signal);
    if (signal.aborted) return;
    list.show(recordings);
    if (seriesRules.dataset.shown === JSON.stringify(series)) return;
    seriesRules.dataset.shown = JSON.stringify(series);
    seriesRules.replaceChildren(...(series.length ? [h("h2", {}, TEXT.series), table([TEXT.title, "", ""], series.map(({ id, title, newOnly }) =>
      [title, newOnly ? TEXT.newEpisodesOnly : "", isAdmin && confirmButton(act, () => api.deleteSeries(id))]))] : []));
  };
  await refresh();
  poll(POLL_MS, signal, showError, refresh);
}

/** A recording's status in a few words. */
function statusText(state, { failure, conflicts, sizeBytes, recordedSeconds, missingSeconds }) {
  return [TEXT.recordingStates[state] ?? state, failure?.message, conflicts?.length && TEXT.conflicts(conflicts.length),
    recordedSeconds > 0 && formatClock(recordedSeconds), sizeBytes > 0 && formatSize(sizeBytes),
    missingSeconds > 0 && TEXT.missing(formatClock(missingSeconds))].filter(Boolean).join(" · ");
}

/** Whether the server has refused to record because no folder is configured. The button is not offered again then. */
let isRecordingOff = false;

/** Recordings that will be or are being made, by `channel entry`. */
export async function getActiveRecordings(signal) {
  const { recordings } = await api.getRecordings(signal);
  return new Map(recordings.filter(({ state, entryId }) => entryId && CANCELLABLE.has(state))
    .map((recording) => [recordingKey(recording.channelId, recording.entryId), recording]));
}

/** The key of a guide entry in `getActiveRecordings`. */
export const recordingKey = (channelId, entryId) => `${channelId} ${entryId}`;

/**
 * A button that records a guide entry, and cancels the recording at the second press once there is one. `recording` is the
 * present one; `onChange(recording)` is called with the new one or null. Empty where nothing can be recorded.
 */
export function recordButton(channelId, entry, recording, onChange = () => {}) {
  if (isRecordingOff && !recording) return h("span", { class: "muted record-note", role: "status" }, TEXT.recordingOff);
  const note = h("span", { class: "muted record-note", role: "status" });
  const label = h("span", {}, "");
  const button = h("button", { type: "button", class: "record", "data-key": "record", onclick: () => press() }, h("span", { class: "dot", "aria-hidden": "true" }), label);
  const element = h("span", { class: "record-box" }, button, note);
  let confirmTimer = null;
  const show = () => {
    button.classList.toggle("recorded", Boolean(recording));
    label.textContent = !recording ? TEXT.record
      : recording.conflicts?.length ? TEXT.conflicts(recording.conflicts.length) : TEXT.recordingStates[recording.state] ?? TEXT.recordingStates.recording;
  };
  const press = async () => {
    note.textContent = "";
    if (recording && !confirmTimer) {
      label.textContent = TEXT.confirmCancelRecording;
      confirmTimer = setTimeout(() => {
        confirmTimer = null;
        show();
      }, 4000);
      return;
    }
    clearTimeout(confirmTimer);
    confirmTimer = null;
    try {
      if (recording) {
        await api.deleteRecording(recording.id);
        recording = null;
      } else ({ recording } = await api.scheduleRecording({ channelId, entryId: entry.id }));
      show();
      onChange(recording);
    } catch (error) {
      show();
      note.textContent = errorText(error);
      isRecordingOff = note.textContent === TEXT.recordingOff;
      if (isRecordingOff) button.hidden = true;
    }
  };
  show();
  return element;
}
