// The button that records a programme, and the dialog with its options and those of a series.

import * as api from "./api.js";
import { openDialog } from "./dialog.js";
import { h, iconButton } from "./dom.js";
import { field } from "./widgets.js";
import { TEXT, errorText } from "./strings.js";

/** Choices of the dialog: minutes before and after, newest recordings and days to keep. */
const PADDING_MINUTES = [0, 1, 2, 5, 10, 15, 30];
const KEEP_COUNTS = [1, 2, 3, 5, 10, 20];
const KEEP_DAYS = [7, 14, 30, 90, 365];

const CONFIRM_MS = 4000;

/**
 * A button that records a guide entry, and cancels the recording at the second press once there is one. `recording` is the
 * present one; `onChange(recording)` is called with the new one or null.
 */
export function recordButton(channelId, entry, recording, onChange = (/** @type {object | null} */ _) => {}) {
  const note = h("span", { class: "muted record-note", role: "status" });
  const label = h("span", {}, "");
  const button = h("button", { type: "button", class: "record", "data-key": "record", onclick: () => press() }, h("span", { class: "dot", "aria-hidden": "true" }), label);
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
      }, CONFIRM_MS);
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
    }
  };
  show();
  return h("span", { class: "record-box" }, button, note);
}

/** A button that opens the options; `onDone({ recording, series })` is called with what was scheduled. */
export const recordOptionsButton = (channel, entry, onDone) =>
  iconButton("settings", TEXT.recordOptions, () => openRecordOptions(channel, entry, onDone), { class: "round small", "data-key": "record-options" });

/** Options for these values, and for the chosen one if it was set by another program. */
const choices = (values, label, chosen) => (values.includes(chosen) ? values : [...values, chosen].sort((a, b) => a - b))
  .map((value) => h("option", { value: String(value), selected: value === chosen }, label(value)));

/** The options of a new recording. */
const DEFAULTS = { newOnly: true, paddingSeconds: { before: 60, after: 300 }, keep: { count: null, days: null } };

/**
 * How recordings are padded and kept; `read()` returns it as the API expects. `initial` is a series rule that is edited.
 * @param {{ newOnly: boolean, paddingSeconds: { before: number, after: number }, keep: { count: number | null, days: number | null } }} initial
 */
export function recordingFields(initial = DEFAULTS) {
  const minutes = (value) => (value === 0 ? TEXT.noPadding : TEXT.minutes(value));
  const before = h("select", {}, ...choices(PADDING_MINUTES, minutes, initial.paddingSeconds.before / 60));
  const after = h("select", {}, ...choices(PADDING_MINUTES, minutes, initial.paddingSeconds.after / 60));
  const count = h("select", {}, ...choices(["", ...KEEP_COUNTS], (value) => (value === "" ? TEXT.keepAll : TEXT.keepNewest(value)), initial.keep.count ?? ""));
  const days = h("select", {}, ...choices(["", ...KEEP_DAYS], (value) => (value === "" ? TEXT.keepForever : TEXT.keepDays(value)), initial.keep.days ?? ""));
  const newOnly = h("input", { type: "checkbox", checked: initial.newOnly });
  const series = h("div", { class: "series-options" }, h("label", { class: "checkbox" }, newOnly, TEXT.onlyNewEpisodes), field(TEXT.keepCount, count));
  return {
    series,
    element: h("div", { class: "dialog-fields" }, field(TEXT.paddingBefore, before), field(TEXT.paddingAfter, after), field(TEXT.keepUntil, days)),
    read: (title) => ({
      paddingSeconds: { before: 60 * Number(before.value), after: 60 * Number(after.value) },
      ...(title && { series: { title, newOnly: newOnly.checked } }),
      ...((days.value || title && count.value) && { keep: { ...(days.value && { days: Number(days.value) }), ...(title && count.value && { count: Number(count.value) }) } }),
    }),
  };
}

/** Opens the options of one programme. */
function openRecordOptions(channel, entry, onDone) {
  const { element, series, read } = recordingFields();
  const isSeries = h("input", { type: "radio", name: "scope", value: "series" });
  const isOnce = h("input", { type: "radio", name: "scope", value: "once" });
  (entry.episode || entry.seriesTitle ? isSeries : isOnce).checked = true;
  const update = () => { series.hidden = !isSeries.checked; };
  update();
  openForm(entry.title, TEXT.record, async () => {
    onDone(await api.scheduleRecording({ channelId: channel.id, entryId: entry.id, ...read(isSeries.checked ? entry.title : null) }));
  },
  h("fieldset", { class: "scope", onchange: update }, h("legend", { class: "visually-hidden" }, TEXT.recordWhat),
    h("label", { class: "checkbox" }, isOnce, TEXT.recordOnce), h("label", { class: "checkbox" }, isSeries, TEXT.recordSeries(channel.name))),
  series, element);
}

/** Opens the form of a new series rule. */
export function openSeriesDialog(channels, onDone) {
  const { element, series, read } = recordingFields();
  const channel = h("select", {}, ...channels.map(({ id, number, name }) => h("option", { value: String(id) }, `${number} ${name}`)));
  const title = h("input", { required: true, maxlength: 200, "data-first": true });
  openForm(TEXT.addSeries, TEXT.add, async () => {
    await api.scheduleRecording({ channelId: Number(channel.value), ...read(title.value.trim()) });
    onDone();
  }, h("div", { class: "dialog-fields" }, field(TEXT.seriesTitleField, title), field(TEXT.channel, channel)), series, element);
}

/** Opens the form of a series rule that is there; its channel stays. */
export function openRuleDialog(rule, onDone) {
  const { element, series, read } = recordingFields(rule);
  const title = h("input", { required: true, maxlength: 200, value: rule.title, "data-first": true });
  openForm(TEXT.editSeries, TEXT.save, async () => {
    const { series: { newOnly }, paddingSeconds, keep = {} } = read(title.value.trim());
    await api.changeSeries(rule.id, { title: title.value.trim(), newOnly, paddingSeconds, keep });
    onDone();
  }, h("div", { class: "dialog-fields" }, field(TEXT.seriesTitleField, title)), series, element);
}

/** A dialog with a form, which ends when `work` has succeeded. */
function openForm(title, label, work, ...children) {
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const dialog = openDialog(title, { className: "sheet" }, h("form", { class: "dialog-body", onsubmit: async (event) => {
    event.preventDefault();
    notice.hidden = true;
    try {
      await work();
      dialog.close();
    } catch (error) {
      notice.textContent = errorText(error);
      notice.hidden = false;
    }
  } }, ...children, notice, h("div", { class: "actions" }, h("button", { class: "primary" }, label))));
}
