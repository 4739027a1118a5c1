// hls.js in Chromium, on a page of the server's own.

import { chromium as engine } from "playwright-core";

export async function chromium(tv) {
  const args = ["--no-sandbox", "--disable-gpu", "--mute-audio", "--autoplay-policy=no-user-gesture-required"];
  const browser = await engine.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
  const page = await browser.newPage();
  await page.goto(tv.base);
  await page.evaluate(async (live) => {
    const { default: Hls } = await import("/web/vendor/hls.js");
    const video = document.createElement("video");
    document.body.append(video);
    window.faults = [];
    video.addEventListener("waiting", () => { if (video.currentTime > 0) window.faults.push(`waits at ${video.currentTime.toFixed(1)} s`); });
    const player = new Hls();
    player.on(Hls.Events.ERROR, (_, { details, fatal }) => {
      // What it gave up by itself, for a better one, is no fault.
      if (details !== Hls.ErrorDetails.INTERNAL_ABORTED) window.faults.push(`${fatal ? "fatal " : ""}${details}`);
    });
    player.loadSource(live);
    player.attachMedia(video);
    window.watched = () => video.currentTime - (video.played.length ? video.played.start(0) : video.currentTime);
    await video.play();
  }, tv.live);
  return {
    said: () => "",
    progress: () => page.evaluate(() => window.watched()),
    verdict: () => page.evaluate(() => window.faults),
    stop: () => browser.close(),
  };
}
