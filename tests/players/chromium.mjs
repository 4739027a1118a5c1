// Chromium on a page of the server: with hls.js, and with its own HLS.

import { chromium as engine } from "playwright-core";
import { play, playNative, probe } from "./hls.mjs";

/** hls.js. A source without a playlist is opened with the capabilities that the page probes. */
export const chromium = (source) => playInPage(source, play);

/** The HLS of Chromium itself. */
export const chromiumNative = (source) => playInPage(source, playNative);

async function playInPage(source, playPlaylist) {
  const args = ["--no-sandbox", "--disable-gpu", "--mute-audio", "--autoplay-policy=no-user-gesture-required"];
  const browser = await engine.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
  try {
    const page = await browser.newPage();
    await page.goto(source.base);
    await page.evaluate(playPlaylist, source.live ?? await source.open(await page.evaluate(probe)));
    return {
      complaints: () => "",
      progress: () => page.evaluate(() => window.watched()),
      verdict: () => page.evaluate(() => window.faults),
      stop: () => browser.close(),
    };
  } catch (fault) {
    await browser.close();
    throw fault;
  }
}
