// The layout of the main screens at four sizes: boxes of their parts, compared with those in `golden/layout.json` (`HEARTHCAST_BLESS=1`
// writes it). Only parts whose size does not depend on the hour, the titles or the number of entries.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SIZES } from "./sizes.mjs";

const GOLDEN = join(process.cwd(), "tests/web/golden/layout.json");

/** How far an edge may be from the stored one, px: fonts differ a little between machines. */
const TOLERANCE_PX = 12;

/** A screen whose boxes are the same this many times, 0.1 s apart, is as it will be. */
const STABLE_ROUNDS = 10;

/** Parts of every screen, and of one. */
const FRAME = ["header.bar", "#menu", "#search", "#account"];
const SCREENS = {
  "": [".hero", ".hero h1", ".row h2", ".row .tile"],
  "library?kind=film": [".kinds", ".toolbar", ".toolbar select", ".tiles .tile"],
  "library?kind=series": [".tiles .tile"],
  guide: [".guide h1", ".guide-tools", ".grid", ".details", ".now-row"],
  recordings: [".heading h1", ".tabs", ".add-series", ".empty-state .icon"],
  settings: [".settings-menu", ".settings-menu a", ".settings-page h2", ".settings-page select"],
  "settings?tab=channels&channel=new": [".orders", ".order", ".next-day"],
};

export async function layout({ server }, openPage) {
  const isBlessed = Boolean(process.env.HEARTHCAST_BLESS);
  const stored = isBlessed ? {} : JSON.parse(readFileSync(GOLDEN, "utf8"));
  const recorder = await server.startSecond([], { HEARTHCAST_RECORDINGS: `${server.media}-layout` });
  const measured = {};
  try {
    const first = await openPage("layout-", undefined, recorder);
    await first.signIn();
    await first.waitForItem("Tides (2026).mkv");
    await first.api("POST", "/api/livetv/channels", { name: "Hearth", number: 1, items: [{ path: `${server.media}/Films`, recursive: true }] });
    const state = await first.page.context().storageState();
    for (const [name, { viewport, isTouch = false }] of Object.entries(SIZES)) {
      const kit = await openPage(`layout-${name}-`, viewport, recorder, state, isTouch);
      for (const [address, parts] of Object.entries(SCREENS)) {
        await kit.openScreen(address);
        const key = `${name} ${address}`;
        // Until everything is loaded: as stored, or when stored anew, unchanged for a while.
        for (let [unchanged, before] = [0, ""]; unchanged < STABLE_ROUNDS;) {
          await kit.page.waitForTimeout(100);
          measured[key] = await kit.page.evaluate(boxesOf, [...FRAME, ...parts]);
          if (!isBlessed && differences({ [key]: measured[key] }, { [key]: stored[key] }).length === 0) break;
          const now = JSON.stringify(measured[key]);
          unchanged = now === before ? unchanged + 1 : 0;
          before = now;
        }
      }
      await kit.screenshot("settings");
      await kit.page.context().close();
    }
    await first.page.context().close();
  } finally {
    assert.equal(await recorder.stop(), 0);
  }
  if (isBlessed) writeFileSync(GOLDEN, `${JSON.stringify(measured, null, 1)}\n`);
  else assert.deepEqual(differences(measured, stored), []);
  console.log(`ok layout: ${Object.keys(measured).length} screens`);
}

/** Runs in the page: left, top, width and height of the first element of each selector that is visible. */
function boxesOf(selectors) {
  return Object.fromEntries(selectors.flatMap((selector) => {
    const element = [...document.querySelectorAll(selector)].find((one) => one.checkVisibility());
    if (!element) return [];
    const { left, top, width, height } = element.getBoundingClientRect();
    return [[selector, [left, top, width, height].map(Math.round)]];
  }));
}

/** Parts that are missing, new or further away than the tolerance. */
function differences(measured, stored) {
  const found = [];
  for (const screen of new Set([...Object.keys(measured), ...Object.keys(stored)])) {
    const [now, before] = [measured[screen] ?? {}, stored[screen] ?? {}];
    for (const part of new Set([...Object.keys(now), ...Object.keys(before)])) {
      const isEqual = now[part] && before[part] && now[part].every((value, n) => Math.abs(value - before[part][n]) <= TOLERANCE_PX);
      if (!isEqual) found.push(`${screen || "home"} ${part}: ${now[part] ?? "not there"}, stored: ${before[part] ?? "none"}`);
    }
  }
  return found;
}
