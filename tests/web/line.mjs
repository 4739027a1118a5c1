// A line that becomes slow: the picture becomes smaller before it stops.

import assert from "node:assert/strict";
import { until } from "./program.mjs";

const MBIT = 1e6 / 8;

/** What the picture may still be asked for in its best size after the line has become slow, segments. */
const MOST = 2;

export async function line(kit) {
  const { page, server, asked, step, playing } = kit;
  // A picture that needs what its size allows, and few of them a second: the line is to be narrow, not the machine.
  const film = server.make("Other/Restless.mkv", ["-f", "lavfi", "-i", "testsrc2=s=1280x720:r=12:d=90,noise=alls=24:allf=t", "-f", "lavfi",
    "-i", "sine=440:d=90", "-c:v", "mpeg4", "-b:v", "6M", "-g", "12", "-c:a", "aac"]);
  const network = await page.context().newCDPSession(page);
  const throttle = (mbits) => network.send("Network.emulateNetworkConditions",
    { offline: false, latency: 20, downloadThroughput: mbits * MBIT, uploadThroughput: mbits * MBIT });
  const segments = () => asked.map((line) => line.match(/\/v(\d+)-(\d+)\.ts/)).filter(Boolean).map(([, rung, n]) => [Number(rung), Number(n)]);
  const state = () => page.evaluate(() => {
    const { buffered, currentTime, videoHeight } = document.querySelector("video");
    return { ahead: buffered.length ? buffered.end(buffered.length - 1) - currentTime : 0, currentTime, videoHeight };
  });

  await step("line-becomes-slow", async () => {
    await network.send("Network.enable");
    await throttle(8);
    await kit.screen(`play?${new URLSearchParams({ path: film, at: 0 })}`);
    await playing("video");
    await until("the best size lies ahead", async () => {
      const { ahead, videoHeight } = await state();
      return ahead > 8 && videoHeight === 720 && segments().at(-1)?.[0] === 0;
    }, 120);
    await page.evaluate(() => {
      window.stalls = 0;
      document.querySelector("video").addEventListener("waiting", () => { window.stalls += 1; });
    });
    const before = segments().length;
    await throttle(1.5);
    await until("a smaller size is asked for", () => segments().slice(before).some(([rung]) => rung > 0), 120);
    const best = segments().slice(before).filter(([rung]) => rung === 0).length;
    assert.ok(best <= MOST, `${best} segments more of the best size: ${JSON.stringify(segments().slice(before))}`);
    await until("the smaller one is shown", async () => (await state()).videoHeight < 720, 120);
    const { videoHeight, currentTime } = await state();
    assert.equal(await page.evaluate(() => window.stalls), 0, "and nothing stopped");
    console.log(`ok from 8 to 1.5 Mbit/s: ${best} segments more of 720 lines, then ${videoHeight} lines at ${currentTime.toFixed(0)} s, no stop`);
  });
  await network.send("Network.disable");
  await network.detach();
}
