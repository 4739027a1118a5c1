// Accessibility: axe-core on every screen at desktop, phone and television size, dark and light, must find nothing serious.
// Screenshots are dark on desktop and television, light on phones.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SIZES = { desk: [1280, 800, "dark", "light"], phone: [390, 844, "light", "dark"], television: [1920, 1080, "dark", "light"] };

export async function access(kit, openPage) {
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
  const findings = [];
  for (const [size, [width, height, colorScheme, otherScheme]] of Object.entries(SIZES)) {
    await step(`access-${size}`, async () => {
      await page.setViewportSize({ width, height });
      for (const [screen, [address, selector]] of Object.entries(screens)) {
        await page.emulateMedia({ colorScheme });
        await kit.openScreen(address);
        await page.locator(selector).first().waitFor();
        findings.push(...(await runAxe(page)).map((finding) => `${screen} on a ${size}: ${finding}`));
        await kit.assertNoSidewaysScroll();
        await kit.screenshot(`${size}-${screen}`);
        await page.emulateMedia({ colorScheme: otherScheme });
        findings.push(...(await runAxe(page, "color-contrast")).map((finding) => `${screen} on a ${otherScheme} ${size}: ${finding}`));
      }
    });
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.emulateMedia({ colorScheme: "dark" });
  const fresh = await openPage("");
  await fresh.page.goto(server.base);
  await fresh.page.getByLabel("Name").waitFor();
  findings.push(...(await runAxe(fresh.page)).map((finding) => `sign-in: ${finding}`));
  await fresh.page.close();
  assert.deepEqual(findings, []);
}

/** Serious violations, of one rule or of all. */
async function runAxe(page, rule) {
  await page.evaluate(AXE);
  // Violations only: listing passes takes minutes on a busy machine.
  const { violations, passes } = await page.evaluate((rule) =>
    window.axe.run(document, { resultTypes: ["violations"], preload: false, ...(rule && { runOnly: [rule] }) }), rule);
  assert.ok(rule || passes.length > 8, "axe must have checked something");
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  return serious.map(({ id, nodes }) => `${id} (${nodes.length}): ${nodes[0].html.slice(0, 160)} ${nodes[0].any[0]?.message ?? ""}`);
}
