// What a browser decodes in segments, and the choice of languages within a session.

import assert from "node:assert/strict";
import { TONES, shownCues as shownPageCues, waitForTone as waitForPageTone, watchPlayback } from "./audible.mjs";
import { waitUntil } from "./program.mjs";

const CUES = (words) => `WEBVTT

00:00:01.000 --> 00:00:59.000
${words}
`;

export async function renditions(kit) {
  const { page, server, requests, step, waitUntilPlaying, position, sessionIds, chooseOption } = kit;

  await step("capabilities-are-what-the-browser-states", async () => {
    // The module runs in the page, with a browser that decodes HEVC, in hardware up to 1080p, and no Dolby Vision.
    const codecs = await page.evaluate(async () => {
      const { probeCodecs } = await import(new URL("web/capabilities.js", document.baseURI));
      const types = [];
      const isTypeSupported = (type) => {
        types.push(type);
        return /avc1.64|hvc1|av01|mp4a.40.2|opus/.test(type);
      };
      const decodingInfo = async ({ video }) => {
        if (/av01/.test(video.contentType)) throw new TypeError("unknown");
        return { supported: true, smooth: false, powerEfficient: /hvc1.2/.test(video.contentType) };
      };
      return { types, supported: await probeCodecs(isTypeSupported, decodingInfo) };
    });
    assert.ok(codecs.types.includes('audio/mp4; codecs="ec-3"') && codecs.types.includes('video/mp4; codecs="vp09.02.51.10"'));
    assert.ok(codecs.types.length <= 64, "the server reads 64 codecs");
    assert.deepEqual(codecs.supported, ["avc1.640033", "avc1.640034", "hvc1.1.6.L123.B0", "hvc1.2.4.L123.B0", "hvc1.2.4.L153.B0",
      "hvc1.2.4.L180.B0", "av01.0.09M.08", "av01.0.13M.08", "av01.0.16M.08", "av01.0.09M.10", "av01.0.13M.10", "av01.0.16M.10",
      "mp4a.40.2", "opus"], "without HEVC Main above 1080p");
  });

  await step("codecs-that-hardware-decodes-are-preferred", async () => {
    const preferred = await page.evaluate(async () => {
      const { probeEncoders } = await import(new URL("web/capabilities.js", document.baseURI));
      const hardware = (pattern) => async ({ video }) => ({ supported: true, smooth: true, powerEfficient: pattern.test(video.contentType) });
      const supported = ["av01.0.09M.08", "hvc1.1.6.L123.B0"];
      return [
        await probeEncoders(supported, hardware(/av01|hvc1/)), await probeEncoders(supported, hardware(/hvc1/)),
        await probeEncoders(["avc1.640033"], hardware(/./)), await probeEncoders(supported, async () => { throw new TypeError("unknown"); }),
      ];
    });
    assert.deepEqual(preferred, [["av1", "hevc"], ["hevc"], [], []]);
  });

  await step("speakers-are-counted-after-an-activation", async () => {
    const counted = await page.evaluate(async () => {
      const { countSpeakers } = await import(new URL("web/capabilities.js", document.baseURI));
      let closed = 0;
      const context = { destination: { maxChannelCount: 6 }, close: async () => { closed += 1; } };
      const fails = () => { throw new DOMException("no output", "NotSupportedError"); };
      return [countSpeakers(true, () => context), countSpeakers(false, fails), countSpeakers(undefined, fails), countSpeakers(true, fails), closed];
    });
    assert.deepEqual(counted, [6, 0, 0, 0, 1]);
  });

  await step("renditions-are-found-by-stream-or-file", async () => {
    const found = await page.evaluate(async () => {
      const { audioPosition, indexInGroup, subtitlePosition } = await import(new URL("web/renditions.js", document.baseURI));
      const session = {
        audio: [{ streamIndex: 2 }, { streamIndex: 1 }],
        subtitles: [{ streamIndex: 4, path: null }, { streamIndex: null, path: "/a b/Film.en.srt" }, { streamIndex: null, path: null }],
      };
      const tracks = ["ac3", "ac3", "aac", "aac"].map((groupId) => ({ groupId }));
      return {
        audio: [1, 2, 3].map((index) => audioPosition(session, index)),
        subtitles: [{ streamIndex: 4 }, { file: "Film.en.srt" }, { file: "Film.de.srt" }, { streamIndex: 5 }, {}]
          .map((subtitle) => subtitlePosition(session, subtitle)),
        inGroup: [[-1, 1], [3, 0], [0, 2], [0, -1]].map(([current, requested]) => indexInGroup(tracks, current, requested)),
        inNone: indexInGroup([], -1, 0),
      };
    });
    assert.deepEqual(found, { audio: [1, 0, -1], subtitles: [0, 1, -1, -1, -1], inGroup: [1, 2, -1, -1], inNone: -1 });
  });

  await step("reasons-per-stream", async () => {
    const texts = await page.evaluate(async () => {
      const { describeDecision, streamEntries } = await import(new URL("web/decision.js", document.baseURI));
      const { needsVideoEncode } = await import(new URL("web/tracks.js", document.baseURI));
      const decision = { video: "copy", audio: "encode", subtitle: "none", reasons: ["CONTAINER_NOT_SUPPORTED", "AUDIO_CODEC_NOT_SUPPORTED"], streams: [
        { index: 0, kind: "video", codec: "h264", action: "copy", reasons: [] },
        { index: 1, kind: "audio", codec: "eac3", action: "encode", reasons: ["AUDIO_CODEC_NOT_SUPPORTED"] },
        { index: 2, kind: "audio", codec: "aac", action: "copy", reasons: [] },
      ] };
      const info = (codec, reasons) => ({ streams: [{ type: "video", codec }], playback: { directPlay: false, canCopyVideo: false, reasons } });
      const capabilities = { codecs: ["avc1.640033", "av01.0.09M.08"] };
      return {
        described: [describeDecision(decision, 1), describeDecision(decision, 2)],
        entries: streamEntries(decision, [{ index: 1, language: "eng" }, { index: 2, language: "de" }]),
        none: streamEntries(undefined, []),
        encodes: [
          needsVideoEncode(info("av1", ["CONTAINER_NOT_SUPPORTED"]), capabilities),
          needsVideoEncode(info("av1", ["CONTAINER_NOT_SUPPORTED"]), null),
          needsVideoEncode(info("vp8", ["CONTAINER_NOT_SUPPORTED"]), capabilities),
          needsVideoEncode(info("h264", ["CONTAINER_NOT_SUPPORTED", "INTERLACED_NOT_SUPPORTED"]), capabilities),
          needsVideoEncode(info("h264", ["CONTAINER_NOT_SUPPORTED", "AUDIO_CODEC_NOT_SUPPORTED"]), capabilities),
        ],
      };
    });
    assert.deepEqual(texts.described,
      ["Converting audio (unsupported audio format)", "Streaming without conversion (unsupported file format)"]);
    assert.deepEqual(texts.entries, [["Video", "H.264, as in the file"],
      ["Audio · English", "E-AC-3, converted (unsupported audio format)"], ["Audio · German", "AAC, as in the file"]]);
    assert.deepEqual(texts.none, []);
    assert.deepEqual(texts.encodes, [false, true, true, true, false], "a refused container alone is no reason to encode");
  });

  server.writeMedia("Other/Languages.de.vtt", CUES("Aus einer Datei."));
  server.writeMedia("Other/english.vtt", CUES("From the film."));
  const tone = (frequency) => ["-f", "lavfi", "-i", `sine=${frequency}:d=60:r=48000`];
  const film = server.makeMedia("Other/Languages.mkv", ["-f", "lavfi", "-i", "testsrc2=s=640x360:r=25:d=60", ...tone(TONES.English), ...tone(TONES.German),
    "-i", `${server.media}/Other/english.vtt`, "-map", "0", "-map", "1", "-map", "2", "-map", "3", "-c:v", "libx264", "-g", "50", "-pix_fmt", "yuv420p",
    "-c:a", "aac", "-c:s", "srt", "-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=ger", "-metadata:s:s:0", "language=eng"]);

  await step("film-in-a-session", async () => {
    // The page remembers languages that were chosen for other films.
    await page.evaluate(() => localStorage.removeItem("hearthcast.player"));
    await page.reload();
    const [response] = await Promise.all([
      page.waitForResponse((candidate) => candidate.url().endsWith("/transcode/start")),
      kit.goToScreen(`play?${new URLSearchParams({ path: film, at: 5 })}`),
    ]);
    const { decision } = await response.json();
    assert.equal(decision.format, "fmp4");
    const { capabilities } = response.request().postDataJSON();
    for (const codec of ["avc1.640033", "mp4a.40.2", "opus", "flac", "vp09.00.51.08", "av01.0.13M.08"]) {
      assert.ok(capabilities.codecs.includes(codec), `${codec} of ${capabilities.codecs}`);
    }
    assert.equal(capabilities.maxAudioChannels, 8);
    assert.ok(capabilities.aacChannels === undefined || capabilities.aacChannels > 0, `${capabilities.aacChannels} channels`);
    assert.ok(capabilities.audioRenditions && capabilities.textRenditions);
    await waitUntilPlaying("video", 5);
  });
  const waitForTone = (language) => waitForPageTone(page, language);
  const chosen = kit.chosenOption;
  const shownCues = () => shownPageCues(page);
  /** The paths of the video segments among requests. */
  const videoSegments = (lines) => lines.flatMap((line) => line.match(/[^/]+\/v\d+-\d+\.m4s/) ?? []);
  /** Does something; asserts that no session was started, that nothing seeked and that the video in the buffer was kept. */
  const withoutInterruption = async (work) => {
    const [sessions, requested] = [sessionIds().length, requests.length];
    const { waiting, seeking, longest } = await watchPlayback(page, work);
    assert.deepEqual([seeking, sessionIds().length], [0, sessions], "neither a seek nor a new session");
    const known = videoSegments(requests.slice(0, requested));
    assert.ok(known.length > 0, "video has come in segments");
    assert.deepEqual(videoSegments(requests.slice(requested)).filter((path) => known.includes(path)), [], "no video segment is requested again");
    // A slow browser may wait for the first audio of the other language.
    return `${waiting} waits, clock off by at most ${longest.toFixed(2)} s`;
  };

  await step("other-language-within-the-session", async () => {
    assert.equal(await chosen("Audio"), "English · mono");
    await waitForTone("English");
    for (const language of ["German", "English"]) {
      const watched = await withoutInterruption(async () => {
        await chooseOption("Audio", `${language} · mono`);
        await waitForTone(language);
      });
      console.log(`ok ${language} within the session: ${watched}`);
      assert.equal(await chosen("Audio"), `${language} · mono`);
    }
  });

  await step("subtitles-within-the-session", async () => {
    const before = requests.length;
    await withoutInterruption(async () => {
      await chooseOption("Subtitles", "English");
      await waitUntil("the embedded subtitle", async () => (await shownCues()).join() === "From the film.");
      await chooseOption("Subtitles", "German");
      await waitUntil("the subtitle file", async () => (await shownCues()).join() === "Aus einer Datei.");
      await chooseOption("Subtitles", "English");
      await waitUntil("the embedded subtitle again", async () => (await shownCues()).join() === "From the film.");
    });
    const own = requests.slice(before);
    assert.ok(own.some((line) => /\/s\d+-\d+\.vtt/.test(line)), "subtitles come in segments");
    assert.ok(!own.some((line) => line.includes("/api/stream/subtitle?")), "and not as a file");
  });

  await step("playback-info-per-stream", async () => {
    await kit.press("i");
    await page.getByText("H.264, as in the file").waitFor();
    await page.getByText("Audio · German").waitFor();
  });

  await step("a-new-session-keeps-the-languages", async () => {
    await chooseOption("Audio", "German · mono");
    await waitForTone("German");
    const before = [sessionIds().length, await position("video")];
    await chooseOption("Quality", "240p");
    await waitUntil("a second session", () => sessionIds().length === before[0] + 1);
    await waitUntilPlaying("video", before[1] - 1);
    await waitForTone("German");
    assert.equal(await chosen("Audio"), "German · mono");
    await waitUntil("the subtitle", async () => (await shownCues()).join() === "From the film.");
    await chooseOption("Subtitles", "Off");
    await waitUntil("no subtitle", async () => (await shownCues()).length === 0);
  });

  await step("film-that-cannot-be-decoded-after-all", async () => {
    const starts = [];
    await page.route("**/transcode/start", async (route) => {
      starts.push(route.request().postDataJSON().capabilities !== undefined);
      await route.continue();
    });
    await page.route("**/transcode/ts_*/index.m3u8*", async (route) => {
      const response = await route.fetch();
      const text = await response.text();
      await route.fulfill({ response, body: starts.length > 1 ? text : text.replaceAll(/avc1\.[0-9A-Fa-f]+/g, "hvc1.9.6.L93.B0") });
    });
    await page.reload();
    await waitUntil("a second start", () => starts.length === 2);
    assert.deepEqual(starts, [true, false], "first with capabilities, then as MPEG-TS");
    await waitUntilPlaying("video", 5);
    await page.unroute("**/transcode/ts_*/index.m3u8*");
    await page.unroute("**/transcode/start");
  });
}
