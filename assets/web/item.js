// The page of a file: media info, how it would play here, and the progress in it.

import * as api from "./api.js";
import { reasonTexts } from "./decision.js";
import { h, icon } from "./dom.js";
import { focus } from "./keys.js";
import { bookLink, folderOf, isAudiobook, libraryLink, nameOf, playLink, stem } from "./links.js";
import { deviceProfile } from "./profile.js";
import { formatClock, formatLength, formatSize, languageName } from "./format.js";
import { TEXT, errorText } from "./strings.js";

export async function showItem(stage, params) {
  const path = params.get("path") ?? "";
  await render(stage, path);
}

async function render(stage, path) {
  const info = await api.getMediaInfo(path, deviceProfile());
  const title = info.description?.title ?? info.tags?.title ?? stem(nameOf(path));
  document.title = `${title} – Hearthcast`;
  const hasVideo = info.tracks.video.length > 0;
  const isBook = isAudiobook(path); // It has its own player, which keeps its own position.
  const resumeSeconds = info.watchProgress?.resumePositionSeconds ?? 0;
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const runAndRender = (work) => async () => {
    try {
      await work();
      const hadFocus = stage.contains(document.activeElement);
      await render(stage, path);
      if (hadFocus) focus(stage.querySelector("[data-first]"));
    } catch (error) {
      notice.textContent = errorText(error);
      notice.hidden = false;
    }
  };
  stage.replaceChildren(
    h("div", { class: "heading" },
      h("a", { class: "back", href: libraryLink(folderOf(path)), "aria-label": TEXT.backToFolder }, icon("back")),
      h("h1", {}, title)),
    h("div", { class: "actions" },
      isBook && h("a", { class: "button primary", href: bookLink(path), "data-first": true }, icon("book"), TEXT.listen),
      !isBook && resumeSeconds > 0 && h("a", { class: "button primary", href: playLink(path), "data-first": true }, TEXT.resume(formatClock(resumeSeconds))),
      !isBook && h("a", { class: resumeSeconds > 0 ? "button" : "button primary", href: playLink(path, 0), "data-first": resumeSeconds > 0 ? null : true },
        resumeSeconds > 0 ? TEXT.playFromStart : TEXT.play),
      !hasVideo && !isBook && h("a", { class: "button", href: bookLink(path) }, TEXT.listen),
      !info.watchProgress?.completed && h("button", { onclick: runAndRender(() => api.markWatched(path)) }, TEXT.markWatched),
      info.watchProgress && h("button", { onclick: runAndRender(() => api.deleteProgress(path)) }, TEXT.clearProgress)),
    notice,
    info.watchProgress?.positionHistory?.length ? h("p", { class: "muted" }, `${TEXT.earlierPositions} `,
      ...info.watchProgress.positionHistory.map(({ positionSeconds }) =>
        h("a", { class: "earlier-position", href: playLink(path, positionSeconds) }, formatClock(positionSeconds)))) : "",
    info.description?.plot ? h("p", { class: "plot" }, info.description.plot) : "",
    h("p", { class: "muted" }, describePlayback(info.playback)),
    facts(TEXT.file, [
      [TEXT.fileName, info.fileName],
      [TEXT.folder, folderOf(path)],
      [TEXT.size, formatSize(info.sizeBytes)],
      [TEXT.duration, info.probe.durationSeconds && `${formatClock(info.probe.durationSeconds)} (${formatLength(info.probe.durationSeconds)})`],
      [TEXT.container, info.probe.container],
      [TEXT.bitrate, info.probe.bitrateKbps && TEXT.kbits(info.probe.bitrateKbps)],
      [TEXT.warnings, info.probe.warnings?.map((warning) => warning.message ?? String(warning)).join("; ")],
    ]),
    // A DVB multiplex has a dozen data streams, which users cannot select.
    facts(TEXT.tracks, info.streams.filter(({ type }) => type !== "data").map((stream) => [`${stream.index} ${TEXT.streamTypes[stream.type] ?? stream.type}`, describeStream(stream)])),
    info.chapters?.length ? facts(TEXT.chapters, info.chapters.map(({ title, startSeconds, index }) =>
      [formatClock(startSeconds), isBook ? h("span", {}, title ?? TEXT.chapter(index + 1)) : h("a", { href: playLink(path, startSeconds) }, title ?? TEXT.chapter(index + 1))])) : "");
}

function describePlayback(playback) {
  if (!playback) return "";
  if (playback.directPlay) return TEXT.directPlay;
  const reasonText = reasonTexts(playback.reasons ?? []).join(", ");
  if (playback.canCopyVideo && playback.canCopyAudio) return TEXT.willStream(reasonText);
  return TEXT.willConvert(reasonText);
}

function facts(title, pairs) {
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
