// A programme with its artwork, what it is about, and what can be done with it: watch, record, record the series.

import { artBox } from "./artwork.js";
import { h, icon, iconButton } from "./dom.js";
import { isFavourite, toggleFavourite } from "./account-preferences.js";
import { formatDay, formatLength, formatTime } from "./format.js";
import { itemLink, watchLink } from "./links.js";
import { kindOf, loadArtwork } from "./programme-artwork.js";
import { recordButton, recordOptionsButton } from "./record-button.js";
import { TEXT } from "./strings.js";
import { episodeLabel } from "./tiles.js";

/** Artwork is requested this long after the selection moved, ms. */
const ARTWORK_DELAY_MS = 120;

const MAX_PEOPLE = 4;

export const isOnAir = ({ startMs, endMs }, now = Date.now()) => startMs <= now && now < endMs;

/**
 * @param {object} options
 * @param {import("./recording-state.js").RecordingState} options.recordings
 * @param {boolean} options.isAdmin  only admins record
 * @param {() => void} options.onRecording  called when something was scheduled or cancelled
 * @param {() => void} options.onFavourite  called when the channel was made a favourite or no longer is one
 */
export function programmeDetails(channel, entry, options) {
  const art = h("div", { class: "details-art" });
  const show = (artwork) => art.replaceChildren(artBox({ shape: "still", kind: kindOf(entry), title: entry.title, artwork, widthRem: 16, isEager: true }));
  show(null);
  setTimeout(async () => {
    if (!art.isConnected) return;
    const artwork = await loadArtwork(entry);
    if (artwork && art.isConnected) show(artwork);
  }, ARTWORK_DELAY_MS);
  return h("div", { class: "programme" }, art,
    h("div", { class: "details-text" },
      h("h2", {}, entry.title),
      h("p", { class: "muted facts-line" }, factsOf(channel, entry).join(" · ")),
      aboutProgramme(entry)),
    createActions(channel, entry, options));
}

function factsOf(channel, entry) {
  const day = formatDay(entry.startMs) === formatDay(Date.now()) ? null : formatDay(entry.startMs);
  return [`${channel.number} ${channel.name}`, [day, `${formatTime(entry.startMs)}–${formatTime(entry.endMs)}`].filter(Boolean).join(", "),
    formatLength((entry.endMs - entry.startMs) / 1000), entry.episode ? episodeLabel({ ...entry, season: entry.season ?? null }) : null,
    entry.subtitle, entry.year, ...(entry.categories ?? []).slice(0, 2)].filter(Boolean).map(String);
}

/** The parts of a cell of short programmes, otherwise the description and who takes part. */
function aboutProgramme(entry) {
  if (entry.parts?.length > 1) {
    return h("ul", { class: "parts" }, ...entry.parts.map(({ title, startMs }) => h("li", {}, h("span", { class: "muted" }, formatTime(startMs)), " ", title)));
  }
  const people = (entry.credits ?? []).filter(({ kind }) => kind === "actor").slice(0, MAX_PEOPLE).map(({ name }) => name);
  return [entry.description && h("p", { class: "description" }, entry.description), people.length > 0 && h("p", { class: "muted people" }, TEXT.withPeople(people.join(", ")))].filter(Boolean);
}

function createActions(channel, entry, options) {
  const { recordings, isAdmin, onRecording } = options;
  const canRecord = isAdmin && recordings.isEnabled && !channel.onDemand && entry.endMs > Date.now() && !entry.parts;
  const rule = recordings.ruleOf(channel.id, entry);
  return h("div", { class: "actions" },
    h("span", { class: "action-line" },
      isOnAir(entry) && h("a", { class: "button primary", href: watchLink(channel.id) }, icon("play"), TEXT.watch),
      entry.itemId && h("a", { class: "button round small", href: itemLink(entry.itemId), "aria-label": TEXT.details, title: TEXT.details }, icon("info")),
      favouriteButton(channel, options)),
    canRecord && h("span", { class: "record-pair" },
      recordButton(channel.id, entry, recordings.recordingOf(channel.id, entry), (recording) => {
        recordings.setRecording(channel.id, entry, recording);
        onRecording();
      }),
      !recordings.recordingOf(channel.id, entry) && recordOptionsButton(channel, entry, ({ recording, series }) => {
        if (recording) recordings.setRecording(channel.id, entry, recording);
        if (series) recordings.addRule(series);
        onRecording(true);
      })),
    rule && h("a", { class: "button series-note", href: "#/recordings?tab=series" }, h("span", { class: "dot series", "aria-hidden": "true" }), TEXT.recordedSeries));
}

function favouriteButton({ id, name }, { onFavourite }) {
  const label = () => (isFavourite(id) ? TEXT.removeFavourite(name) : TEXT.addFavourite(name));
  const button = iconButton("star", label(), () => {
    button.classList.toggle("is-favourite", toggleFavourite(id));
    for (const attribute of ["aria-label", "title"]) button.setAttribute(attribute, label());
    onFavourite();
  }, { class: `round small${isFavourite(id) ? " is-favourite" : ""}`, "data-key": "favourite" });
  return button;
}
