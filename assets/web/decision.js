// The play decision in plain words: what is converted, and why.

import { languageName } from "./format.js";
import { LOCALE, REASONS, TEXT, UNSUPPORTED } from "./strings.js";

/** Names of codecs as people write them. */
const CODECS = {
  h264: "H.264", hevc: "HEVC", av1: "AV1", vp9: "VP9", vp8: "VP8", mpeg2video: "MPEG-2", mpeg4: "MPEG-4", aac: "AAC", mp3: "MP3",
  opus: "Opus", flac: "FLAC", alac: "ALAC", ac3: "AC-3", eac3: "E-AC-3", dts: "DTS", truehd: "TrueHD", vorbis: "Vorbis",
};

/**
 * What the server does for this playback, and why, e.g. "Converting audio (unsupported audio format)". Of several audio tracks the
 * one with this stream index counts. `isLimited`: the user chose a lower quality, which is why the video is too large.
 */
export function describeDecision(decision, audioIndex = null, isLimited = false) {
  if (!decision) return "";
  const active = decision.streams?.filter(({ kind, index }) => kind === "video" || audioIndex === null || index === audioIndex);
  const encoded = active?.filter(({ action }) => action === "encode");
  const converted = encoded ? [...new Set(encoded.map(({ kind }) => kind))] : ["video", "audio"].filter((part) => decision[part] === "encode");
  const work = [converted.includes("video") && "video", converted.includes("audio") && "audio", decision.subtitle === "burn" && "burn"].filter(Boolean);
  const [first = "none", ...others] = work;
  const head = TEXT.work[first + others.map((name) => name[0].toUpperCase() + name.slice(1)).join("")];
  // If the active streams are copied, the reasons of other streams do not matter here.
  const general = (decision.reasons ?? []).filter((code) => !encoded || !/^(VIDEO|AUDIO)_/.test(code));
  const codes = encoded?.length > 0 ? encoded.flatMap(({ reasons }) => reasons) : general;
  const reasonList = reasonTexts(isLimited ? codes.map((code) => (code === "VIDEO_RESOLUTION_NOT_SUPPORTED" ? "QUALITY_SELECTED" : code)) : codes);
  return reasonList.length > 0 ? `${head} (${reasonList.join(", ")})` : head;
}

const FORMATS = { "mpeg-ts": "MPEG-TS", fmp4: "fMP4" };

/** How the file gets to the browser: as it is, or in segments of a format. */
export function describeMethod({ playbackMode, decision }) {
  return playbackMode === "direct" ? TEXT.directPlay : [TEXT.segments, FORMATS[decision?.format]].filter(Boolean).join(", ");
}

/** How each stream of a session is delivered, as `[name, value]` pairs. `streams` are those of the media info. */
export function streamEntries(decision, streams) {
  const isAlone = (kind) => decision.streams.filter((stream) => stream.kind === kind).length === 1;
  return (decision?.streams ?? []).map(({ index, kind, codec, action, reasons }) => {
    const language = isAlone(kind) ? null : languageName(streams.find((stream) => stream.index === index)?.language) ?? String(index);
    const reasonList = reasonTexts(reasons).join(", ");
    const work = action === "copy" ? TEXT.streamCopied : reasonList ? TEXT.streamConverted(reasonList) : TEXT.converted;
    return [[TEXT.streamTypes[kind], language].filter(Boolean).join(" · "), [CODECS[codec] ?? codec, work].filter(Boolean).join(", ")];
  });
}

/** The reasons of a play decision in plain words; everything the browser does not support is one reason. */
export function reasonTexts(codes = []) {
  const names = codes.map((code) => code.replace(/_NOT_SUPPORTED$/, ""));
  const subjects = [...new Set(names.map((name) => UNSUPPORTED[name]).filter(Boolean))];
  const others = names.filter((name) => !UNSUPPORTED[name]).map((name) => REASONS[name]).filter(Boolean);
  return [...new Set([...(subjects.length ? [TEXT.unsupported(new Intl.ListFormat(LOCALE).format(subjects))] : []), ...others])];
}
