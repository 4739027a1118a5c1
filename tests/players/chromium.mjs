// hls.js in Chromium, on a page of the server.

import { chromium as engine } from "playwright-core";
import { play } from "./hls.mjs";

export async function chromium(tv) {
  const args = ["--no-sandbox", "--disable-gpu", "--mute-audio", "--autoplay-policy=no-user-gesture-required"];
  const browser = await engine.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
  const page = await browser.newPage();
  await page.goto(tv.base);
  await page.evaluate(play, tv.live);
  return {
    complaints: () => "",
    progress: () => page.evaluate(() => window.watched()),
    verdict: () => page.evaluate(() => window.faults),
    stop: () => browser.close(),
  };
}
