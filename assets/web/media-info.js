// The technical information of a file: container, tracks, how it would play here.

import { reasonTexts } from "./decision.js";
import { h } from "./dom.js";
import { formatClock, formatLength, formatSize, languageName } from "./format.js";
import { folderOf } from "./links.js";
import { TEXT } from "./strings.js";

/** A part of the page that opens at one press. `paths` are all files with this content. */
export const mediaInfo = (info, paths) => h("details", {
  class: "media-info", "data-key": "media-info", ontoggle: ({ target }) => target.open && target.scrollIntoView({ block: "nearest" }),
}, h("summary", {}, TEXT.mediaInfo),
  h("div", { class: "facts-columns" },
    facts(TEXT.file, [
      [TEXT.playback, describePlayback(info.playback)],
      [TEXT.fileName, info.fileName],
      ...(paths.length > 1 ? paths : [info.path]).map((path, n) => [n === 0 ? TEXT.folder : TEXT.alsoIn, folderOf(path)]),
      [TEXT.size, formatSize(info.sizeBytes)],
      [TEXT.duration, info.probe.durationSeconds && `${formatClock(info.probe.durationSeconds)} (${formatLength(info.probe.durationSeconds)})`],
      [TEXT.container, info.probe.container],
      [TEXT.bitrate, info.probe.bitrateKbps && TEXT.kbits(info.probe.bitrateKbps)],
      [TEXT.warnings, info.probe.warnings?.map((warning) => warning.message ?? String(warning)).join("; ")],
    ]),
    // A DVB multiplex has a dozen data streams, which users cannot select.
    facts(TEXT.tracks, info.streams.filter(({ type }) => type !== "data").map((stream) =>
      [`${stream.index} ${TEXT.streamTypes[stream.type] ?? stream.type}`, describeStream(stream)]))));

function describePlayback(playback) {
  if (!playback) return "";
  if (playback.directPlay) return TEXT.directPlay;
  const reasonText = reasonTexts(playback.reasons ?? []).join(", ");
  if (playback.canCopyVideo && playback.canCopyAudio) return TEXT.willStream(reasonText);
  return TEXT.willConvert(reasonText);
}

export function facts(title, pairs) {
  const present = pairs.filter(([, value]) => value);
  return h("section", { class: "facts" }, h("h2", {}, title),
    h("dl", {}, ...present.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
}

const describeStream = (stream) => [
  stream.codec,
  stream.profile,
  stream.width && `${stream.width}×${stream.height}`,
  stream.frameRate && TEXT.fps(stream.frameRate),
  stream.hdr && stream.hdr !== "sdr" && stream.hdr,
  stream.interlaced && TEXT.interlaced,
  stream.channels && (stream.channelLayout ?? TEXT.channelCount(stream.channels)),
  stream.sampleRate && TEXT.kilohertz(stream.sampleRate / 1000),
  stream.bitrateKbps && TEXT.kbits(stream.bitrateKbps),
  languageName(stream.language),
  stream.title,
  stream.default && TEXT.defaultTrack,
  stream.forced && TEXT.forced,
].filter(Boolean).join(" · ");

/** What the owner of a large screen looks for: 4K, HDR, 5.1. */
export function qualityMarks(info) {
  const [video, audio] = ["video", "audio"].map((type) => info.streams.find((stream) => stream.type === type));
  const resolution = video && RESOLUTIONS.find(([width, height]) => video.width >= width || video.height >= height)?.[2];
  const channels = { 6: "5.1", 8: "7.1" }[Math.max(0, ...info.streams.map((stream) => stream.channels ?? 0))];
  return [resolution, video?.hdr && video.hdr !== "sdr" && HDR_NAMES[video.hdr], audio && channels].filter(Boolean);
}

const RESOLUTIONS = [[3800, 2100, "4K"], [1900, 1060, "1080p"], [1260, 700, "720p"]];
const HDR_NAMES = { hdr10: "HDR10", hlg: "HLG", "dolby-vision": "Dolby Vision" };
