// The speed of the page, printed and never asserted: `tests/web/run bench`.

import { waitUntil } from "./program.mjs";
import { mockThousandChannels } from "./thousand-channels.mjs";

const ROUNDS = 5;
const PRESSES = [...Array(10).fill("ArrowDown"), ...Array(5).fill("ArrowRight"), "PageDown", "PageDown", "PageUp", "ArrowLeft", "ArrowUp"];

export async function bench(_, openPage) {
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
  const printStats = (name, values) => {
    const sorted = values.toSorted((a, b) => a - b);
    console.log(`bench ${name}: median ${sorted[sorted.length >> 1].toFixed(1)}, longest ${sorted.at(-1).toFixed(1)} (${sorted.length})`);
  };
  printStats("guide of 1,000 channels, first paint after its data, ms", firstPaints);
  printStats("guide of 1,000 channels, key to focus, ms", focusDelays);
  printStats("guide of 1,000 channels, key to frame, ms", frameDelays);
  printStats("guide of 1,000 channels, cells in the page", cellCounts);
}
