// What is put into files: what is to come, under way and done, and what is recorded whenever it is on.

import * as api from "./api.js";
import { h } from "./dom.js";
import { playLink } from "./links.js";
import { every, liveTable, remover, table } from "./sheet.js";
import { TEXT, clock, day, size, time } from "./strings.js";

const EVERY_MS = 5000;

/** Those that are to come or under way can still be called off. */
const OPEN = new Set(["scheduled", "recording"]);

export async function recordingTab(place, { act, user, signal, wrong }) {
  const admin = user.role === "admin";
  const call = (work) => work().then(show).catch(wrong);
  const list = liveTable([TEXT.what, TEXT.channel, TEXT.when, TEXT.how, "", ""], TEXT.noRecordings, ({ id, state }) => `${id} ${state}`,
    ({ id, title, subtitle, channelName, start, end, state, path, ...more }, known) => [
      known ? null : path && !OPEN.has(state) || state === "recording" && path
        ? h("a", { href: playLink(path) }, [title, subtitle].filter(Boolean).join(" · ")) : [title, subtitle].filter(Boolean).join(" · "),
      channelName ?? "", `${day(start)}, ${time(start)}–${time(end)}`, standing(state, more),
      known || !admin ? null : OPEN.has(state) ? remover(call, () => api.removeRecording(id), TEXT.cancel, TEXT.sureCancel)
        : remover(call, () => api.removeRecording(id), TEXT.forgetIt),
      known || !admin || !path || OPEN.has(state) ? null : remover(call, () => api.removeRecording(id, "delete"), TEXT.deleteFile, TEXT.sure)]);
  const rules = h("div", {});
  place.replaceChildren(h("p", { class: "quiet" }, TEXT.recordingsWhy), list.element, rules);
  const show = async () => {
    const { recordings, series } = await api.recordings(signal);
    if (signal.aborted) return;
    list.show(recordings);
    if (rules.dataset.shown === JSON.stringify(series)) return;
    rules.dataset.shown = JSON.stringify(series);
    rules.replaceChildren(...(series.length ? [h("h2", {}, TEXT.series), table([TEXT.what, "", ""], series.map(({ id, title, newOnly }) =>
      [title, newOnly ? TEXT.newOnly : "", admin && remover(act, () => api.removeSeries(id))]))] : []));
  };
  await show();
  every(EVERY_MS, signal, wrong, show);
}

/** How a recording stands, in few words. */
function standing(state, { failure, conflicts, sizeBytes, recordedSeconds, missingSeconds }) {
  return [TEXT.recordingStates[state] ?? state, failure?.message, conflicts?.length && TEXT.conflicts(conflicts.length),
    recordedSeconds > 0 && clock(recordedSeconds), sizeBytes > 0 && size(sizeBytes),
    missingSeconds > 0 && TEXT.missing(clock(missingSeconds))].filter(Boolean).join(" · ");
}

/** A button that records an entry of the guide, and says what came of it. */
export function recordButton(channelId, entry) {
  const button = h("button", { type: "button", "data-key": "record", onclick: async () => {
    button.disabled = true;
    try {
      const { recording } = await api.record({ channelId, entryId: entry.id });
      button.textContent = recording?.conflicts?.length ? TEXT.conflicts(recording.conflicts.length) : TEXT.recorded;
    } catch (error) {
      button.disabled = false;
      button.textContent = error.message;
    }
  } }, TEXT.record);
  return button;
}
