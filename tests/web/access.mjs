// Every screen looked at by axe-core, in the sizes of a desk, a phone (by light) and a television: nothing serious may be found.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SIZES = { desk: [1280, 800, "dark"], phone: [390, 844, "light"], television: [1920, 1080, "dark"] };

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
  for (const [size, [width, height, colorScheme]] of Object.entries(SIZES)) {
    await step(`access-${size}`, async () => {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme });
      for (const [screen, [address, there]] of Object.entries(screens)) {
        await kit.screen(address);
        await page.locator(there).first().waitFor();
        found.push(...(await look(page)).map((finding) => `${screen} on a ${size}: ${finding}`));
      }
    });
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  const fresh = await another("");
  await fresh.page.goto(server.base);
  await fresh.page.getByLabel("Name").waitFor();
  found.push(...(await look(fresh.page)).map((finding) => `sign-in: ${finding}`));
  await fresh.page.close();
  assert.deepEqual(found, []);
}

async function look(page) {
  await page.evaluate(AXE);
  const { violations, passes } = await page.evaluate(() => window.axe.run(document));
  assert.ok(passes.length > 8, "it looked at something");
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  return grave.map(({ id, nodes }) => `${id} (${nodes.length}): ${nodes[0].html.slice(0, 160)} ${nodes[0].any[0]?.message ?? ""}`);
}
