// One file: what it is, what is in it, how it would play here, and where one is in it.

import * as api from "./api.js";
import { h, icon } from "./dom.js";
import { focus } from "./keys.js";
import { bookLink, folderOf, libraryLink, nameOf, playLink, stem } from "./links.js";
import { deviceProfile } from "./profile.js";
import { TEXT, clock, language, lasting, reasons, size } from "./strings.js";

export async function item(stage, params) {
  const path = params.get("path") ?? "";
  await draw(stage, path);
}

async function draw(stage, path) {
  const info = await api.info(path, deviceProfile());
  const title = info.tags?.title ?? stem(nameOf(path));
  document.title = `${title} – Hearthcast`;
  const video = info.tracks.video.length > 0;
  const resume = info.watchProgress?.resumePositionSeconds ?? 0;
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const act = (work) => async () => {
    try {
      await work();
      const held = stage.contains(document.activeElement);
      await draw(stage, path);
      if (held) focus(stage.querySelector("[data-first]"));
    } catch (error) {
      notice.textContent = error.message;
      notice.hidden = false;
    }
  };
  stage.replaceChildren(
    h("div", { class: "heading" },
      h("a", { class: "back", href: libraryLink(folderOf(path)), "aria-label": TEXT.backToFolder }, icon("back")),
      h("h1", {}, title)),
    h("div", { class: "actions" },
      resume > 0 && h("a", { class: "button primary", href: playLink(path), "data-first": true }, TEXT.resume(clock(resume))),
      h("a", { class: resume > 0 ? "button" : "button primary", href: playLink(path, 0), "data-first": resume > 0 ? null : true },
        resume > 0 ? TEXT.fromStart : TEXT.play),
      !video && h("a", { class: "button", href: bookLink(path) }, TEXT.listen),
      !info.watchProgress?.completed && h("button", { onclick: act(() => api.markWatched(path)) }, TEXT.markWatched),
      info.watchProgress && h("button", { onclick: act(() => api.forget(path)) }, TEXT.forget)),
    notice,
    info.watchProgress?.positionHistory?.length ? h("p", { class: "quiet" }, `${TEXT.wasAt} `,
      ...info.watchProgress.positionHistory.map(({ positionSeconds }) =>
        h("a", { class: "past", href: playLink(path, positionSeconds) }, clock(positionSeconds)))) : "",
    h("p", { class: "quiet" }, how(info.playback)),
    facts(TEXT.file, [
      ["Name", info.fileName],
      ["Folder", folderOf(path)],
      ["Size", size(info.sizeBytes)],
      ["Length", info.probe.durationSeconds && `${clock(info.probe.durationSeconds)} (${lasting(info.probe.durationSeconds)})`],
      ["Container", info.probe.container],
      ["Bit rate", info.probe.bitrateKbps && `${info.probe.bitrateKbps} kbit/s`],
      ["Warnings", info.probe.warnings?.map((warning) => warning.message ?? String(warning)).join("; ")],
    ]),
    // A DVB multiplex has a dozen data streams, which users cannot select.
    facts(TEXT.tracks, info.streams.filter(({ type }) => type !== "data").map((stream) => [`${stream.index} ${stream.type}`, track(stream)])),
    info.chapters?.length ? facts(TEXT.chapters, info.chapters.map(({ title, startSeconds, index }) =>
      [clock(startSeconds), h("a", { href: playLink(path, startSeconds) }, title ?? TEXT.chapter(index + 1))])) : "");
}

function how(playback) {
  if (!playback) return "";
  if (playback.directPlay) return "Plays here as it is.";
  const why = reasons(playback.reasons ?? []).join(", ");
  return why ? `Is converted while it plays: ${why}.` : "Is converted while it plays.";
}

function facts(title, lines) {
  const shown = lines.filter(([, value]) => value);
  return h("section", { class: "facts" }, h("h2", {}, title),
    h("dl", {}, ...shown.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
}

const track = (stream) => [
  stream.codec,
  stream.profile,
  stream.width && `${stream.width}×${stream.height}`,
  stream.frameRate && `${stream.frameRate} pictures a second`,
  stream.hdr && stream.hdr !== "sdr" && stream.hdr,
  stream.interlaced && "interlaced",
  stream.channels && (stream.channelLayout ?? `${stream.channels} channels`),
  stream.sampleRate && `${stream.sampleRate / 1000} kHz`,
  stream.bitrateKbps && `${stream.bitrateKbps} kbit/s`,
  language(stream.language),
  stream.title,
  stream.default && "default",
  stream.forced && "forced",
].filter(Boolean).join(" · ");
