// Every screen looked at by axe-core, in the sizes of a desk, a phone and a television, dark and light: nothing serious may
// be found. A picture of each is kept, dark ones of desks and televisions, light ones of phones.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SIZES = { desk: [1280, 800, "dark", "light"], phone: [390, 844, "light", "dark"], television: [1920, 1080, "dark", "light"] };

export async function access(kit, another) {
  const { page, server, step } = kit;
  const at = (path) => new URLSearchParams({ path: `${server.media}/${path}` });
  const screens = {
    home: ["", ".tile, .card"], library: [`library?${at("Films")}`, ".entry"], file: [`file?${at("Films/Tides (2026).mkv")}`, "dl"],
    play: [`play?${at("Films/Ember (2026).mp4")}`, "video"], book: [`book?${at("Audiobooks/By the Fire.m4b")}`, ".chapter"],
    guide: ["guide", ".cell, .card"], playing: ["settings", ".tab h2"], server: ["settings?tab=server", "dl"], log: ["settings?tab=log", ".log li"],
    pipelines: ["settings?tab=pipelines", "summary"], players: ["settings?tab=tokens", "form"],
    sources: ["settings?tab=sources", "form"], recordings: ["settings?tab=recordings", ".tab p"], channels: ["settings?tab=channels&channel=new", ".tree button"],
    users: ["settings?tab=users", "td"], devices: ["settings?tab=devices", "td"], welcome: ["welcome", ".choices button"],
  };
  const found = [];
  for (const [size, [width, height, colorScheme, other]] of Object.entries(SIZES)) {
    await step(`access-${size}`, async () => {
      await page.setViewportSize({ width, height });
      for (const [screen, [address, there]] of Object.entries(screens)) {
        await page.emulateMedia({ colorScheme });
        await kit.screen(address);
        await page.locator(there).first().waitFor();
        found.push(...(await look(page)).map((finding) => `${screen} on a ${size}: ${finding}`));
        await kit.fitsSideways();
        await kit.picture(`${size}-${screen}`);
        await page.emulateMedia({ colorScheme: other });
        found.push(...(await look(page, "color-contrast")).map((finding) => `${screen} on a ${other} ${size}: ${finding}`));
      }
    });
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.emulateMedia({ colorScheme: "dark" });
  const fresh = await another("");
  await fresh.page.goto(server.base);
  await fresh.page.getByLabel("Name").waitFor();
  found.push(...(await look(fresh.page)).map((finding) => `sign-in: ${finding}`));
  await fresh.page.close();
  assert.deepEqual(found, []);
}

/** Serious findings, of one rule or of all. */
async function look(page, rule) {
  await page.evaluate(AXE);
  // Only what is wrong is named: to name all that is right takes a busy machine minutes.
  const { violations, passes } = await page.evaluate((rule) =>
    window.axe.run(document, { resultTypes: ["violations"], preload: false, ...(rule && { runOnly: [rule] }) }), rule);
  assert.ok(rule || passes.length > 8, "it looked at something");
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  return grave.map(({ id, nodes }) => `${id} (${nodes.length}): ${nodes[0].html.slice(0, 160)} ${nodes[0].any[0]?.message ?? ""}`);
}
