// The speed of the page, printed and never asserted: `tests/web/run bench`.

import { waitUntil } from "./program.mjs";
import { pageOfFilms } from "./library.mjs";
import { mockThousandChannels } from "./thousand-channels.mjs";

const ROUNDS = 5;
const PRESSES = [...Array(10).fill("ArrowDown"), ...Array(5).fill("ArrowRight"), "PageDown", "PageDown", "PageUp", "ArrowLeft", "ArrowUp"];

/** Pixels that a wall is scrolled in each frame, and the number of frames. */
const SCROLL_PX = 60;
const SCROLL_FRAMES = 300;

export async function bench(kit, openPage) {
  await benchHome(kit, openPage);
  await benchWall(openPage);
  const [firstPaints, focusDelays, frameDelays, cellCounts] = [[], [], [], []];
  for (let round = 0; round < ROUNDS; round += 1) {
    const { page, signIn, openScreen } = await openPage("bench-");
    await signIn();
    await mockThousandChannels(page);
    await openScreen("guide");
    firstPaints.push(await waitUntil("the guide is painted", () => page.evaluate(() => window.paintedAt && window.paintedAt - window.dataAt)));
    cellCounts.push(await page.locator(".cell, .grid-channel").count());
    for (const key of PRESSES) {
      const [focusDelay, frameDelay] = await page.evaluate((key) => new Promise((resolve) => {
        const began = performance.now();
        document.addEventListener("focusin", () => {
          const focus = performance.now() - began;
          requestAnimationFrame(() => setTimeout(() => resolve([focus, performance.now() - began])));
        }, { once: true });
        document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      }), key);
      focusDelays.push(focusDelay);
      frameDelays.push(frameDelay);
    }
    await page.context().close();
  }
  printStats("guide of 1,000 channels, first paint after its data, ms", firstPaints);
  printStats("guide of 1,000 channels, key to focus, ms", focusDelays);
  printStats("guide of 1,000 channels, key to frame, ms", frameDelays);
  printStats("guide of 1,000 channels, cells in the page", cellCounts);
}

/** Opens home in a browser without a cache, and again with one, which is a reload or another visit. */
async function benchHome({ page, server }, openPage) {
  const storageState = await page.context().storageState();
  const [cold, warm] = [[], []];
  for (let round = 0; round < ROUNDS; round += 1) {
    const { page } = await openPage("bench-home-", undefined, undefined, storageState, false, undefined, "allow");
    for (const paints of [cold, warm]) {
      await page.goto("about:blank");
      await page.goto(`${server.base}/`);
      await page.locator(".tile, .card").first().waitFor();
      paints.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
    }
    await page.context().close();
  }
  printStats("home, first contentful paint without a cache, ms", cold);
  printStats("home, first contentful paint with a cache, ms", warm);
}

/** Scrolls a wall of 5,000 films. */
async function benchWall(openPage) {
  const [rates, longest] = [[], []];
  for (let round = 0; round < ROUNDS; round += 1) {
    const { page, signIn, openScreen } = await openPage("bench-wall-");
    await signIn();
    await page.route(/\/api\/library\/items\?/, (route) => route.fulfill({ json: pageOfFilms(new URL(route.request().url())) }));
    await openScreen("library?kind=film");
    await page.locator(".tiles .tile").first().waitFor();
    await waitUntil("all are loaded", () => page.evaluate(() => document.querySelectorAll(".skeleton").length === 0));
    await page.waitForTimeout(500);
    const frames = await page.evaluate(([px, count]) => new Promise((resolve) => {
      const times = [];
      const next = (now) => {
        times.push(now);
        if (times.length > count) return resolve(times);
        scrollBy(0, px);
        requestAnimationFrame(next);
      };
      requestAnimationFrame(next);
    }), [SCROLL_PX, SCROLL_FRAMES]);
    rates.push((1000 * SCROLL_FRAMES) / (frames.at(-1) - frames[0]));
    longest.push(Math.max(...frames.slice(1).map((time, n) => time - frames[n])));
    await page.context().close();
  }
  printStats("wall of 5,000, frames a second", rates);
  printStats("wall of 5,000, longest frame, ms", longest);
}

function printStats(name, values) {
  const sorted = values.toSorted((a, b) => a - b);
  console.log(`bench ${name}: median ${sorted[sorted.length >> 1].toFixed(1)}, longest ${sorted.at(-1).toFixed(1)} (${sorted.length})`);
}
