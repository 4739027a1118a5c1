// What is pure in the page: formatters, names, choices and decisions. Without a browser the language is English.

import assert from "node:assert/strict";
import { test } from "node:test";
import { groupByDisc } from "../../../assets/web/album.js";
import { describeDecision, reasonTexts } from "../../../assets/web/decision.js";
import { formatClock, formatLength, formatSize, languageName } from "../../../assets/web/format.js";
import { rulesOf } from "../../../assets/web/language/rules.js";
import { TEXT as GERMAN } from "../../../assets/web/language/de.js";
import { linePath } from "../../../assets/web/line-graph.js";
import { letterOf } from "../../../assets/web/library-kinds.js";
import { folderOf, isAudiobook, nameOf, stem } from "../../../assets/web/links.js";
import { LiveClock } from "../../../assets/web/live-clock.js";
import { findNextPart } from "../../../assets/web/next-part.js";
import { getLanguages, isSeasonFolder, rememberLanguages, seriesOf } from "../../../assets/web/preferences.js";
import { parsePreviews } from "../../../assets/web/seek-previews.js";
import { TEXT, errorText, fieldError, pageError, pickLanguage, skipText, waitText } from "../../../assets/web/strings.js";
import { episodeLabel, remainingOf } from "../../../assets/web/tiles.js";
import { qualityChoices, stepRate } from "../../../assets/web/tracks.js";

test("the language is the first that has a table", () => {
  assert.equal(pickLanguage(["fr-FR", "de-CH", "en"]), "de");
  assert.equal(pickLanguage([null, "es-419"]), "es");
  assert.equal(pickLanguage(["fr"]), "en");
  assert.equal(pickLanguage([]), "en");
});

test("counts have the plural of their language", () => {
  const { plural, decimal } = rulesOf("de");
  assert.equal(plural({ one: "Film", other: "Filme" })(1), "1 Film");
  assert.equal(plural({ one: "Film", other: "Filme" })(5000), "5.000 Filme");
  assert.equal(decimal(1.25, 1), "1,3");
  assert.equal(GERMAN.rate(1.25), "1,25×");
  assert.equal(TEXT.counts.film(0), "0 films");
  assert.equal(TEXT.delaySeconds(-0.5), "−0.5 s");
});

test("a line ends at the right edge, has gaps, and a dot for a value that is alone", () => {
  assert.equal(linePath([1, 2, null, 4], 10, 4), "M7 45h0L8 30M10 0h0");
  assert.equal(linePath([0, 0], 10, 0), "M9 60h0L10 60", "without a peak it lies at the bottom");
  assert.equal(linePath([null], 10, 0), "");
});

test("times and sizes", () => {
  assert.deepEqual([0, 75, 3675].map(formatClock), ["0:00", "1:15", "1:01:15"]);
  assert.deepEqual([0, 18, 60, 5400, 7200].map(formatLength), ["1 s", "18 s", "1 min", "1 h 30 min", "2 h"]);
  assert.deepEqual([0, 999, 1_536_000, 47_000_000_000].map(formatSize), ["0 B", "999 B", "1.5 MB", "47 GB"]);
  assert.deepEqual(["de", "und", null].map(languageName), ["German", null, null]);
});

test("an error has the page's sentence, never the server's", () => {
  const raw = "no such thing: /srv/films";
  assert.equal(errorText({ code: "NOT_FOUND", message: raw }), "This is no longer available.");
  assert.equal(errorText({ code: "A_NEW_CODE", message: raw }), TEXT.unknownError);
  assert.equal(errorText(new TypeError(raw)), TEXT.unknownError);
  assert.equal(errorText({ code: "CONFLICT", message: "number 7 is used by News" }), "Channel 7 is already “News”.");
  assert.equal(errorText({ code: "CONFLICT", message: raw }), "This conflicts with something that exists already.");
  assert.equal(errorText({ code: "VALIDATION_ERROR", message: raw, details: { fields: [{ field: "rights.statement" }] } }), "Describe your permission in at least 20 characters.");
  assert.equal(errorText(fieldError("code")), "Check the set-up code.");
  assert.equal(errorText(pageError("Mine.")), "Mine.");
  assert.equal(skipText("is not selected"), "not in the chosen groups");
  assert.equal(skipText(raw), "not a stream or programme that can be used");
  assert.equal(waitText({ code: "TRANSCODER_BUSY", details: { max: 1 } }), TEXT.slotsInUse);
});

test("a play decision in words", () => {
  const streams = [{ kind: "video", index: 0, action: "encode", reasons: ["VIDEO_CODEC_NOT_SUPPORTED"] }, { kind: "audio", index: 1, action: "copy", reasons: [] }];
  assert.equal(describeDecision({ streams, reasons: [] }), "Converting video (unsupported video format)");
  assert.equal(describeDecision({ streams, subtitle: "burn", reasons: [] }), "Converting video and burning in subtitles (unsupported video format)");
  assert.equal(describeDecision({ streams: [], reasons: ["CONTAINER_NOT_SUPPORTED"] }), "Streaming without conversion (unsupported file format)");
  assert.deepEqual(reasonTexts(["VIDEO_CODEC_NOT_SUPPORTED", "AUDIO_CODEC_NOT_SUPPORTED", "START_FORCED", "A_NEW_REASON"]),
    ["unsupported video format and audio format", "you requested conversion"]);
});

test("names from paths", () => {
  assert.equal(nameOf("/films/Ember (2026).mkv"), "Ember (2026).mkv");
  assert.equal(folderOf("/films/Ember.mkv"), "/films");
  assert.equal(stem("Ember.s01.mkv"), "Ember.s01");
  assert.ok(isAudiobook("/a/B.M4B") && !isAudiobook("/a/b.mp3"));
  assert.equal(letterOf({ title: "The Ärger" }), "A");
  assert.equal(letterOf({ title: "12 Men" }), "#");
});

test("languages are remembered for a series", () => {
  assert.ok(isSeasonFolder("/s/Staffel 2") && !isSeasonFolder("/s/Ember"));
  assert.equal(seriesOf("/s/Lantern/Season 1/E1.mkv"), "/s/Lantern");
  rememberLanguages("/s/Lantern", { audio: "de" });
  rememberLanguages("/s/Other", { audio: "fr" });
  assert.equal(getLanguages("/s/Lantern/Season 2/E9.mkv").audio, "de");
  assert.equal(getLanguages("/films/Ember.mkv").audio, "fr");
});

test("an album has its discs by tags, otherwise by folders", () => {
  const tracks = [{ mediaPath: "/m/A/CD 2/1.mp3" }, { mediaPath: "/m/A/CD 1/1.mp3" }, { mediaPath: "/m/A/CD 1/2.mp3", disc: 2 }];
  assert.deepEqual(groupByDisc(tracks), [[1, [tracks[1]]], [2, [tracks[0], tracks[2]]]]);
  assert.deepEqual(groupByDisc([{ mediaPath: "/m/B/1.mp3", disc: null }]).map(([disc]) => disc), [1]);
});

test("episodes and what is left of them", () => {
  assert.equal(episodeLabel({ season: 1, episode: 2, lastEpisode: 3 }), "S1 E2–3");
  assert.equal(episodeLabel({ season: 0, episode: 4, lastEpisode: null }), "Special 4");
  assert.equal(episodeLabel({ season: null, episode: 5, lastEpisode: null }), "Episode 5");
  assert.equal(remainingOf({ progress: { completed: false, durationSeconds: 5400, positionSeconds: 600 } }), "1 h 20 min left");
  assert.equal(remainingOf({ progress: null }), null);
});

test("qualities and speeds", () => {
  const info = { playback: { directPlay: true, resolutions: ["original", "720p"] }, streams: [] };
  assert.deepEqual(qualityChoices(info, null, "720p").map(({ label, chosen }) => [label, chosen]), [["Original", false], ["720p", true]]);
  assert.deepEqual([stepRate(1, 1), stepRate(2, 1), stepRate(0.5, -1)], [1.25, 2, 0.5]);
});

test("episodes follow each other by number, also into the next season", async () => {
  const folders = { "/s/L/Season 1": ["L 9.mkv", "L 10.mkv"], "/s/L/Season 2": ["L 1.mkv"], "/films": ["Ember.mkv", "Tides.mkv"] };
  const listFolder = async (path) => ({ entries: folders[path]?.map((name) => ({ path: `${path}/${name}`, name, kind: "file", mediaKind: "video" }))
    ?? ["Season 2", "Season 1"].map((name) => ({ path: `${path}/${name}`, name, kind: "folder" })) });
  assert.equal(await findNextPart("/s/L/Season 1/L 9.mkv", "video", listFolder), "/s/L/Season 1/L 10.mkv");
  assert.equal(await findNextPart("/s/L/Season 1/L 10.mkv", "video", listFolder), "/s/L/Season 2/L 1.mkv");
  assert.equal(await findNextPart("/s/L/Season 2/L 1.mkv", "video", listFolder), null);
  assert.equal(await findNextPart("/films/Ember.mkv", "video", listFolder), null, "films do not");
});

test("seek previews are read from WebVTT", () => {
  const [preview] = parsePreviews("WEBVTT\n\n01:00:05.500 --> 01:00:10.000\nsheet-2.jpg#xywh=160,90,160,90\n", "https://host/a/previews.vtt");
  assert.deepEqual(preview, { startSeconds: 3605.5, sheet: "https://host/a/sheet-2.jpg", x: 160, y: 90, width: 160, height: 90 });
});

test("a viewer is behind live by choice, or when the device is far too slow", () => {
  const media = Object.assign(new EventTarget(), { play: async () => {}, currentTime: 92, seekable: { length: 1, start: () => 0, end: () => 100 } });
  const clock = new LiveClock(media);
  assert.equal(clock.latency(), 8);
  assert.equal(clock.behind(), 0);
  media.currentTime = 80;
  assert.equal(clock.behind(), 0, "a slow start");
  media.currentTime = 60;
  assert.equal(clock.behind(), 40, "too slow");
  media.currentTime = 80;
  media.dispatchEvent(new Event("pause"));
  assert.equal(clock.behind(), 20, "paused");
  clock.goToLive();
  assert.deepEqual([media.currentTime, clock.behind()], [94, 0]);
  clock.seek(Date.now() / 1000 - 1000);
  assert.equal(media.currentTime, 3, "not before what is kept");
  assert.equal(clock.behind(), 97, "rewound");
});
