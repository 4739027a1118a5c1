// A channel in fMP4: menus for the languages of its lineup, and playback across a change of the item. A slow
// machine may wait at the live edge, so waits are printed, not asserted.

import assert from "node:assert/strict";
import { TONES, shownCues, waitForTone, watchPlayback } from "./audible.mjs";
import { waitUntil } from "./program.mjs";

/** Long enough to change the language three times before the item changes. */
const FILM_SECONDS = 36;
const OTHER_FILM_SECONDS = 12;

const CUES = `WEBVTT

00:00:01.000 --> 00:00:35.000
Aus einer Datei.
`;

export async function liveLanguages(kit) {
  const { page, server, requests, step, waitUntilPlaying, chooseOption } = kit;
  const tone = (frequency) => ["-f", "lavfi", "-i", `sine=${frequency}:d=${FILM_SECONDS}:r=48000`];
  const video = (size) => ["-f", "lavfi", "-i", `testsrc2=s=${size}:r=25:d=${FILM_SECONDS}`];
  const codecs = ["-c:v", "libx264", "-g", "50", "-bf", "2", "-pix_fmt", "yuv420p", "-c:a", "aac"];
  const both = server.makeMedia("Channel/0 Both.mkv", [...video("640x360"), ...tone(TONES.English), ...tone(TONES.German),
    "-map", "0", "-map", "1", "-map", "2", ...codecs, "-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=ger"]);
  const english = server.makeMedia("Channel/1 English.mp4", [...video("480x270"), ...tone(TONES.English), ...codecs, "-t", String(OTHER_FILM_SECONDS), "-metadata:s:a:0", "language=eng"]);
  server.writeMedia("Channel/0 Both.de.vtt", CUES);
  // The page plays some 12 s after the clock, near the start of the first item.
  const startAt = new Date(Date.now() - 14_000).toISOString();
  const { status, body } = await kit.api("POST", "/api/livetv/channels",
    { name: "Languages", number: 950, scheduleMode: "sequential", startAt, items: [both, english].map((path) => ({ path })) });
  assert.equal(status, 201);
  const width = () => page.evaluate(() => document.querySelector("video").videoWidth);

  await step("live-languages", async () => {
    await kit.openScreen(`watch?channel=${body.channel.id}`);
    await waitUntilPlaying("video");
    assert.ok(requests.some((line) => line.includes(`/watch/${body.channel.id}/index.m3u8`)), "the channel is in fMP4");
    await waitForTone(page, "English");
    for (const language of ["German", "English", "German"]) {
      const { waiting, longest } = await watchPlayback(page, async () => {
        await chooseOption("Audio", language);
        await waitForTone(page, language);
      });
      console.log(`ok ${language} on a channel: ${waiting} waits, clock off by at most ${longest.toFixed(2)} s`);
    }
    await chooseOption("Subtitles", "German");
    await waitUntil("the cue of the file", async () => (await shownCues(page)).join() === "Aus einer Datei.");
  });

  await step("live-other-item", async () => {
    const before = await width();
    const { waiting, longest } = await watchPlayback(page, async () => {
      await waitUntil("the other item", async () => ![0, before].includes(await width()));
      // The item has no German.
      await waitForTone(page, "English");
      await waitUntil("no cue", async () => (await shownCues(page)).length === 0);
      await waitUntil("the first item again", async () => (await width()) === before);
      await waitForTone(page, "German");
      await waitUntil("its cue", async () => (await shownCues(page)).join() === "Aus einer Datei.");
    });
    console.log(`ok two changes of the item: ${waiting} waits, clock off by at most ${longest.toFixed(2)} s`);
  });
}
