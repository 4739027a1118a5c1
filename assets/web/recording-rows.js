// Rows of the recordings screen: a recording, a series rule, and a card of recordings that are in the way of each other.

import * as api from "./api.js";
import { artBox } from "./artwork.js";
import { h, icon } from "./dom.js";
import { formatClock, formatDay, formatLength, formatSize, formatTime } from "./format.js";
import { playLink } from "./links.js";
import { openRuleDialog } from "./record-button.js";
import { CANCELLABLE } from "./recording-state.js";
import { TEXT, errorText } from "./strings.js";
import { episodeLabel } from "./tiles.js";
import { confirmButton } from "./widgets.js";

const formatSpan = ({ start, end }) => `${formatDay(start)}, ${formatTime(start)}–${formatTime(end)}`;

/** S1 E2 and the subtitle. @param {{ season?: number, episode?: number, subtitle?: string }} recording */
const partOf = ({ season, episode, subtitle }) => [episode ? episodeLabel({ season, episode }) : null, subtitle].filter(Boolean).join(" · ");

const minutesOf = (seconds) => Math.round(seconds / 60);

/** Padding and how long it is kept, in words. */
function optionsOf({ paddingSeconds: { before, after }, keep }) {
  return [before > 0 && TEXT.startsEarly(minutesOf(before)), after > 0 && TEXT.endsLate(minutesOf(after)),
    keep.count && TEXT.keepsNewest(keep.count), keep.days && TEXT.deletedAfter(keep.days)].filter(Boolean);
}

/** A recording's status in a few words; `others` are in its way. @param {any} recording @param {any[]} others */
function statusText({ state, failure, sizeBytes, recordedSeconds, missingSeconds, ...recording }, others) {
  return [TEXT.recordingStates[state] ?? state, failure && (TEXT.recordingFailures[failure.code] ?? errorText(failure)), others.length > 0 && TEXT.conflictsWith(others.map(({ title }) => title).join(", ")),
    recordedSeconds > 0 && (state === "recording" ? formatClock(recordedSeconds) : formatLength(recordedSeconds)), sizeBytes > 0 && formatSize(sizeBytes),
    missingSeconds >= 1 && TEXT.missing(formatClock(missingSeconds)), ...optionsOf(recording)].filter(Boolean).join(" · ");
}

const isPlayable = ({ path, state, sizeBytes }) => path && state !== "scheduled" && sizeBytes > 0;

/** A recording; `updateRow` shows what changes while it runs. */
export function createRow(recording, { act, isAdmin, artwork }) {
  const { id, title, channelName, state, path } = recording;
  const href = isPlayable(recording) ? playLink(path) : null;
  const still = artBox({ shape: "still", kind: recording.episode ? "episode" : "channel", title, artwork, widthRem: 13 }, href && h("span", { class: "play-mark" }, icon("play")));
  const buttons = !isAdmin ? [] : CANCELLABLE.has(state)
    ? [confirmButton(act, () => api.deleteRecording(id), TEXT.cancel, TEXT.confirmCancel)]
    : [path && confirmButton(act, () => api.deleteRecording(id, "delete"), TEXT.deleteRecording, TEXT.confirmDelete),
      confirmButton(act, () => api.deleteRecording(id), TEXT.removeFromList, TEXT.confirmRemove)].filter(Boolean);
  return h("li", { class: `recording is-${state}` },
    href ? h("a", { class: "recording-still", href, tabindex: -1, "aria-hidden": "true" }, still) : h("div", { class: "recording-still" }, still),
    h("div", { class: "recording-text" },
      href ? h("a", { class: "title", href }, title) : h("span", { class: "title" }, title),
      h("span", {}, partOf(recording)),
      h("span", { class: "muted" }, [channelName, formatSpan(recording)].filter(Boolean).join(" · ")),
      h("span", { class: "status" }, h("span", { class: "dot", "aria-hidden": "true" }), h("span", { class: "status-text" }, "")),
      buttons.length > 0 && h("div", { class: "recording-actions" }, ...buttons)));
}

/** Shows the status; `others` are the recordings that are in the way of this one. */
export function updateRow(row, recording, others) {
  const text = row.querySelector(".status-text");
  const status = statusText(recording, others);
  if (text.textContent !== status) text.textContent = status;
  row.classList.toggle("conflicting", others.length > 0);
}

/** A series rule, and its next recording. */
export const ruleRow = (rule, { act, isAdmin, channel, next }) => h("li", { class: "recording rule" },
  h("span", { class: "rule-mark" }, h("span", { class: "dot series", "aria-hidden": "true" })),
  h("div", { class: "recording-text" },
    h("span", { class: "title" }, rule.title),
    h("span", { class: "muted" }, [channel ? `${channel.number} ${channel.name}` : TEXT.channelGone, rule.newOnly ? TEXT.newEpisodesOnly : TEXT.allEpisodes, ...optionsOf(rule)].join(" · ")),
    h("span", { class: "muted" }, next ? TEXT.nextRecording(formatSpan(next)) : TEXT.nothingComing),
    isAdmin && h("div", { class: "recording-actions" },
      h("button", { type: "button", onclick: () => openRuleDialog(rule, () => act(async () => {})) }, TEXT.edit),
      confirmButton(act, () => api.deleteSeries(rule.id)))));

/** Recordings that cannot be made at the same time; cancelling one resolves it. */
export const conflictCard = (group, { act, isAdmin }) => h("section", { class: "conflict", "aria-label": TEXT.conflict },
  h("h2", {}, TEXT.conflict), h("p", {}, TEXT.conflictWhy),
  h("ul", {}, ...group.map((recording) => h("li", {},
    h("div", { class: "recording-text" }, h("span", { class: "title" }, [recording.title, partOf(recording)].filter(Boolean).join(" · ")),
      h("span", { class: "muted" }, [recording.channelName, formatSpan(recording)].filter(Boolean).join(" · "))),
    isAdmin && confirmButton(act, () => api.deleteRecording(recording.id), TEXT.cancel, TEXT.confirmCancel)))));
