// How quick the page is, printed and never asserted: `tests/web/run bench`.

import { until } from "./program.mjs";
import { thousand } from "./thousand.mjs";

const ROUNDS = 5;
const PRESSES = [...Array(10).fill("ArrowDown"), ...Array(5).fill("ArrowRight"), "PageDown", "PageDown", "PageUp", "ArrowLeft", "ArrowUp"];

export async function bench(_, another) {
  const [paints, presses, pictures, cells] = [[], [], [], []];
  for (let round = 0; round < ROUNDS; round += 1) {
    const { page, signIn, screen } = await another("bench-");
    await signIn();
    await thousand(page);
    await screen("guide");
    paints.push(await until("it is painted", () => page.evaluate(() => window.paintedAt && window.paintedAt - window.dataAt)));
    cells.push(await page.locator(".cell, .grid-channel").count());
    for (const key of PRESSES) {
      const [focus, picture] = await page.evaluate((key) => new Promise((resolve) => {
        const began = performance.now();
        document.addEventListener("focusin", () => {
          const focus = performance.now() - began;
          requestAnimationFrame(() => setTimeout(() => resolve([focus, performance.now() - began])));
        }, { once: true });
        document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      }), key);
      presses.push(focus);
      pictures.push(picture);
    }
    await page.context().close();
  }
  const said = (name, all) => {
    const sorted = all.toSorted((a, b) => a - b);
    console.log(`bench ${name}: median ${sorted[sorted.length >> 1].toFixed(1)}, longest ${sorted.at(-1).toFixed(1)} (${sorted.length})`);
  };
  said("guide of 1,000 channels, first paint after its data, ms", paints);
  said("guide of 1,000 channels, key to focus, ms", presses);
  said("guide of 1,000 channels, key to picture, ms", pictures);
  said("guide of 1,000 channels, cells in the page", cells);
}
