// Sound, subtitle and size choices of one item, from its media info.

import * as api from "./api.js";
import { h } from "./dom.js";
import { TEXT, language } from "./strings.js";

const LAYOUTS = { 1: "mono", 2: "stereo", 6: "5.1", 8: "7.1" };

/** `[{ value, label }]` of the sound tracks, the one that plays first marked. */
export function audioChoices(info) {
  const tracks = info.streams.filter(({ type }) => type === "audio");
  const first = tracks.find((track) => track.default) ?? tracks[0];
  return tracks.map((track, n) => ({
    value: track.index,
    chosen: track === first,
    label: [language(track.language) ?? track.title ?? `Track ${n + 1}`, language(track.language) && track.title,
      track.commentary && "commentary", LAYOUTS[track.channels] ?? `${track.channels} channels`].filter(Boolean).join(" · "),
  }));
}

/** The subtitles that can be shown: text in the page, pictures drawn into the video by the server. */
export function subtitleChoices(info) {
  const usable = info.subtitles.filter(({ kind, modes, url, streamIndex }) =>
    modes.length > 0 && (kind === "text" ? url : Number.isInteger(streamIndex)));
  return usable.map((subtitle, n) => ({
    value: subtitle.id,
    subtitle,
    chosen: subtitle.forced === true && subtitle.kind === "text",
    label: [language(subtitle.language) ?? subtitle.title ?? `Subtitles ${n + 1}`,
      language(subtitle.language) && subtitle.title, subtitle.forced && "forced",
      subtitle.hearingImpaired && "for the hard of hearing", subtitle.kind !== "text" && "drawn in"]
      .filter(Boolean).join(" · "),
  }));
}

const RATES = [0.5, 0.75, 1, 1.25, 1.5, 2];

export const rateChoices = () => RATES.map((rate) => ({ value: rate, label: `${rate}×`, chosen: rate === 1 }));

/** A labelled menu; null when there is nothing to choose. */
export function menu(label, choices, onchange) {
  if (choices.length < 2) return null;
  const options = choices.map(({ value, label, chosen }) => h("option", { value, selected: chosen }, label));
  return h("label", { class: "menu" }, h("span", {}, label),
    h("select", { onchange: (event) => onchange(choices[event.target.selectedIndex]) }, ...options));
}

/** What draws styled subtitles over which element: how it is ended. */
const drawn = new WeakMap();

/** ASS says how its lines look and where they stand. */
const isStyled = ({ format }) => format === "ass" || format === "ssa";

/** Fonts of one film that are brought to what draws. */
const MOST_FONTS = 32;

/**
 * Shows one text subtitle over the element, or none, until the signal ends it. Its times are the file's, as the element's
 * are. A styled one is plain text until its styling is drawn, and stays that where it cannot be. `attachments` are the
 * film's.
 */
export async function showSubtitle(media, subtitle, attachments, signal) {
  hideSubtitles(media);
  if (!subtitle) return;
  const turn = {}; // Whoever chooses something else meanwhile has another one.
  drawn.set(media, turn);
  const plain = async () => {
    const words = await api.text(subtitle.url, signal);
    if (drawn.get(media) !== turn || turn.ready) return;
    const track = h("track", {
      kind: "subtitles",
      label: language(subtitle.language) ?? subtitle.title ?? "Subtitles",
      srclang: subtitle.languageTag ?? subtitle.language,
      src: URL.createObjectURL(new Blob([words], { type: "text/vtt" })),
    });
    media.append(track);
    track.track.mode = "showing";
  };
  await plain();
  if (!isStyled(subtitle) || typeof WebAssembly === "undefined" || drawn.get(media) !== turn) return;
  signal.addEventListener("abort", () => drawn.get(media) === turn && hideSubtitles(media), { once: true });
  try {
    const [{ drawStyled }, words, fonts] = await Promise.all([
      import("./ass.js"), api.text(subtitle.url.replace("format=vtt", "format=ass"), signal), there(attachments, signal)]);
    if (drawn.get(media) !== turn) return;
    turn.end = await drawStyled(media, words, fonts, () => {
      turn.ready = true;
      if (drawn.get(media) === turn) removeTracks(media);
    });
    if (drawn.get(media) !== turn) turn.end();
  } catch {
    // Plain text is what is left.
  }
}

/** Addresses of the fonts that can be had: one that cannot would keep the others from being used. */
async function there(attachments, signal) {
  const urls = attachments.map(({ signedUrl }) => signedUrl).filter(Boolean).slice(0, MOST_FONTS).map(api.at);
  const had = await Promise.all(urls.map((url) => api.exists(url, signal)));
  return urls.filter((_, n) => had[n]);
}

function hideSubtitles(media) {
  drawn.get(media)?.end?.();
  drawn.delete(media);
  removeTracks(media);
}

function removeTracks(media) {
  for (const track of media.querySelectorAll("track")) {
    track.track.mode = "disabled"; // Firefox goes on showing what was taken away while it showed.
    URL.revokeObjectURL(track.src);
    track.remove();
  }
}

/** Sizes the server can make, as choices; first the file's own, or what the line carries where the picture is made anyway. */
export function sizeChoices(info) {
  const { resolutions, directPlay, canCopyVideo } = info.playback;
  const first = directPlay || canCopyVideo ? TEXT.original : TEXT.automatic;
  return resolutions.map((value) => ({ value, label: value === "original" ? first : value, chosen: value === "original" }));
}
