// A network that becomes slow: the quality drops before playback stalls.

import assert from "node:assert/strict";
import { waitUntil } from "./program.mjs";

const MBIT = 1e6 / 8;

/** Segments of the best quality that may still be requested after the network has become slow. */
const MAX_BEST_SEGMENTS = 2;

export async function slowNetwork(kit) {
  const { page, server, requests, step, waitUntilPlaying } = kit;
  // Noise needs all of the bitrate, and the frame rate is low: the network must be the bottleneck, not the machine.
  const film = server.makeMedia("Other/Restless.mkv", ["-f", "lavfi", "-i", "testsrc2=s=1280x720:r=12:d=90,noise=alls=24:allf=t", "-f", "lavfi",
    "-i", "sine=440:d=90", "-c:v", "mpeg4", "-b:v", "6M", "-g", "12", "-c:a", "aac"]);
  const network = await page.context().newCDPSession(page);
  const throttle = (mbits) => network.send("Network.emulateNetworkConditions",
    { offline: false, latency: 20, downloadThroughput: mbits * MBIT, uploadThroughput: mbits * MBIT });
  const segments = () => requests.map((line) => line.match(/\/v(\d+)-(\d+)\.(?:ts|m4s)/)).filter(Boolean).map(([, rung, n]) => [Number(rung), Number(n)]);
  const playbackState = () => page.evaluate(() => {
    const { buffered, currentTime, videoHeight } = document.querySelector("video");
    return { ahead: buffered.length ? buffered.end(buffered.length - 1) - currentTime : 0, currentTime, videoHeight };
  });

  await step("network-becomes-slow", async () => {
    await network.send("Network.enable");
    await throttle(8);
    await kit.openScreen(`play?${new URLSearchParams({ path: film, at: 0 })}`);
    await waitUntilPlaying("video");
    await waitUntil("the best quality is buffered", async () => {
      const { ahead, videoHeight } = await playbackState();
      return ahead > 8 && videoHeight === 720 && segments().at(-1)?.[0] === 0;
    }, 120);
    await page.evaluate(() => {
      window.stalls = 0;
      document.querySelector("video").addEventListener("waiting", () => { window.stalls += 1; });
    });
    const before = segments().length;
    await throttle(1.5);
    await waitUntil("a lower quality is requested", () => segments().slice(before).some(([rung]) => rung > 0), 120);
    const bestSegments = segments().slice(before).filter(([rung]) => rung === 0).length;
    assert.ok(bestSegments <= MAX_BEST_SEGMENTS, `${bestSegments} more segments of the best quality: ${JSON.stringify(segments().slice(before))}`);
    await waitUntil("the lower quality is shown", async () => (await playbackState()).videoHeight < 720, 120);
    const { videoHeight, currentTime } = await playbackState();
    assert.equal(await page.evaluate(() => window.stalls), 0, "playback must not stall");
    console.log(`ok from 8 to 1.5 Mbit/s: ${bestSegments} more segments of 720p, then ${videoHeight}p at ${currentTime.toFixed(0)} s, no stall`);
  });
  await network.send("Network.disable");
  await network.detach();
}
