// Audio, subtitle and quality choices of an item, from its media info.

import * as api from "./api.js";
import { h } from "./dom.js";
import { languageName } from "./format.js";
import { getLanguages } from "./preferences.js";
import { TEXT } from "./strings.js";

const LAYOUTS = { 1: TEXT.mono, 2: TEXT.stereo, 6: "5.1", 8: "7.1" };

/** The audio tracks as `[{ value, label, chosen }]`; the default track is chosen. */
export function audioChoices(info) {
  const tracks = info.streams.filter(({ type }) => type === "audio");
  const defaultTrack = tracks.find((track) => track.default) ?? tracks[0];
  return tracks.map((track, n) => ({
    value: track.index,
    language: track.language,
    chosen: track === defaultTrack,
    label: [languageName(track.language) ?? track.title ?? TEXT.trackNumber(n + 1), languageName(track.language) && track.title,
      track.commentary && TEXT.commentary, LAYOUTS[track.channels] ?? TEXT.channelCount(track.channels)].filter(Boolean).join(" · "),
  }));
}

/** The stream index of the audio that a session begins with; null if the server does not state it. */
export const startedAudio = ({ renditions, decision }) =>
  renditions?.audio[0]?.streamIndex ?? decision?.streams?.find(({ kind }) => kind === "audio")?.index ?? null;

/** The available subtitles: text is shown by the page, bitmap subtitles are burned in by the server. */
export function subtitleChoices(info) {
  const usable = info.subtitles.filter(({ kind, modes, url, streamIndex }) =>
    modes.length > 0 && (kind === "text" ? url : Number.isInteger(streamIndex)));
  return usable.map((subtitle, n) => ({
    value: subtitle.id,
    subtitle,
    chosen: subtitle.forced === true && subtitle.kind === "text",
    label: [languageName(subtitle.language) ?? subtitle.title ?? TEXT.subtitleNumber(n + 1),
      languageName(subtitle.language) && subtitle.title, subtitle.forced && TEXT.forced,
      subtitle.hearingImpaired && TEXT.hearingImpaired, subtitle.kind !== "text" && TEXT.burnedIn]
      .filter(Boolean).join(" · "),
  }));
}

/** Marks the choices in the languages that were chosen before. Bitmap subtitles are left out, because they need an encode. */
export function recallLanguages(path, audios, subtitles) {
  const languages = getLanguages(path);
  const isSame = (language, other) => Boolean(language) && languageName(language) === languageName(other);
  const audio = audios.find(({ language }) => isSame(language, languages.audio));
  if (audio && !isSame(audio.language, audios.find(({ chosen }) => chosen)?.language)) choose(audios, audio);
  const subtitle = subtitles.find((choice) => choice.subtitle.kind === "text" && !choice.subtitle.forced && isSame(choice.subtitle.language, languages.subtitle));
  if (subtitle) choose(subtitles, subtitle);
}

/** Marks the tracks that an address names: `audio` is a stream index, `subtitles` an id or "off". */
export function applyTracks(tracks, audios, subtitles) {
  const audio = audios.find(({ value }) => String(value) === tracks.audio);
  if (audio) choose(audios, audio);
  const subtitle = subtitles.find(({ value }) => value === tracks.subtitles);
  if (subtitle || tracks.subtitles === "off") choose(subtitles, subtitle);
}

/** Marks one choice, or none. */
function choose(choices, chosen) {
  for (const choice of choices) choice.chosen = choice === chosen;
}

const RATES = [0.5, 0.75, 1, 1.25, 1.5, 1.75, 2];

/** The choices of speed, and the one that is chosen. */
export const rateChoices = (chosen, rates = RATES) => rates.map((rate) => ({ value: rate, label: TEXT.rate(rate), chosen: rate === chosen }));

/** The next speed up or down. */
export function stepRate(rate, step) {
  const index = RATES.findIndex((candidate) => candidate >= rate);
  return RATES[Math.max(0, Math.min(RATES.length - 1, (index < 0 ? RATES.length - 1 : index) + step))];
}

/** The selected subtitle of each media element, and how to stop its renderer. */
const activeSubtitles = new WeakMap();

/** The text tracks of each media element that were added here. Renditions have others. */
const ownTracks = new WeakMap();

/** ASS subtitles have styles and positions. */
export const isStyled = ({ format }) => format === "ass" || format === "ssa";

/** Most fonts of a file to load. */
const MAX_FONTS = 32;

/**
 * Shows a text subtitle over the media element, or none, until the signal is aborted. Its times are those of the file, like
 * the element's. A styled one is plain text until libass renders it, and stays so where that fails. `attachments` are those
 * of the file.
 */
export async function showSubtitle(media, subtitle, attachments, signal) {
  hideSubtitles(media);
  if (!subtitle) return;
  const selection = {}; // Another choice meanwhile replaces it.
  activeSubtitles.set(media, selection);
  const showPlain = async () => {
    const text = await api.getText(subtitle.url, signal);
    if (activeSubtitles.get(media) !== selection || selection.ready) return;
    const track = h("track", {
      kind: "subtitles",
      label: languageName(subtitle.language) ?? subtitle.title ?? TEXT.subtitles,
      srclang: subtitle.languageTag ?? subtitle.language,
      src: URL.createObjectURL(new Blob([text], { type: "text/vtt" })),
    });
    ownTracks.get(media)?.push(track) ?? ownTracks.set(media, [track]);
    media.append(track);
    track.track.mode = "hidden"; // `subtitle-view.js` draws it.
  };
  await showPlain();
  if (!isStyled(subtitle) || typeof WebAssembly === "undefined" || activeSubtitles.get(media) !== selection) return;
  signal.addEventListener("abort", () => activeSubtitles.get(media) === selection && hideSubtitles(media), { once: true });
  try {
    const [{ renderStyledSubtitles }, text, fonts] = await Promise.all([
      import("./ass.js"), api.getText(subtitle.url.replace("format=vtt", "format=ass"), signal), loadableFonts(attachments, signal)]);
    if (activeSubtitles.get(media) !== selection) return;
    selection.end = await renderStyledSubtitles(media, text, fonts, () => {
      selection.ready = true;
      if (activeSubtitles.get(media) === selection) removeTracks(media);
    });
    if (activeSubtitles.get(media) !== selection) selection.end();
  } catch {
    // The plain text stays.
  }
}

/** URLs of the fonts that can be loaded: one that cannot would block the others. */
async function loadableFonts(attachments, signal) {
  const urls = attachments.map(({ signedUrl }) => signedUrl).filter(Boolean).slice(0, MAX_FONTS).map(api.resolvePath);
  const isLoadable = await Promise.all(urls.map((url) => api.urlExists(url, signal)));
  return urls.filter((_, n) => isLoadable[n]);
}

function hideSubtitles(media) {
  activeSubtitles.get(media)?.end?.();
  activeSubtitles.delete(media);
  removeTracks(media);
}

function removeTracks(media) {
  for (const track of ownTracks.get(media)?.splice(0) ?? []) {
    track.track.mode = "disabled"; // Firefox would keep showing a track that is removed while it is showing.
    URL.revokeObjectURL(track.src);
    track.remove();
  }
}

/** Reasons that concern the video itself, not the container or the audio. */
const VIDEO_REASON = /^(VIDEO|INTERLACED|ANAMORPHIC)_/;

/** How codec strings of the video codecs begin that fMP4 segments contain. */
const CODEC_PREFIXES = { h264: "avc1", hevc: "hvc1", av1: "av01", vp9: "vp09" };

/** Whether the video has to be encoded for this browser. A refused container is no reason where segments may contain the codec. */
export function needsVideoEncode({ playback, streams }, capabilities) {
  if (playback.directPlay || playback.canCopyVideo) return false;
  const videos = streams.filter(({ type }) => type === "video");
  const { codec } = videos.find((video) => video.default) ?? videos[0] ?? {};
  const isInSegments = capabilities?.codecs.some((supported) => supported.startsWith(CODEC_PREFIXES[codec]));
  return !isInSegments || playback.reasons.some((reason) => VIDEO_REASON.test(reason));
}

/** The available qualities and the chosen one. The first is the original, or automatic where the video is encoded anyway. */
export function qualityChoices(info, capabilities, chosen = "original") {
  const firstLabel = needsVideoEncode(info, capabilities) ? TEXT.automatic : TEXT.original;
  return info.playback.resolutions.map((value) => ({ value, label: value === "original" ? firstLabel : value, chosen: value === chosen }));
}
