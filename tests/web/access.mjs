// Accessibility: axe-core on every screen at desktop, phone and television size, dark and light, must find nothing above minor.
// Screenshots are dark on desktop and television, light on phones.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SIZES = { desk: [1280, 800, "dark", "light"], phone: [390, 844, "light", "dark"], television: [1920, 1080, "dark", "light"] };

/** Most lines of the log to check per level: they look alike, and there may be 500. */
const MAX_LOG_LINES = 20;

export async function access(kit, openPage) {
  const { page, server } = kit;
  const at = (path) => new URLSearchParams({ path: `${server.media}/${path}` });
  const { body: { series: [series] } } = await kit.api("GET", "/api/library/series");
  const { body: { albums: [album] } } = await kit.api("GET", "/api/library/albums");
  const { body: { items: [track] } } = await kit.api("GET", "/api/library/items?kind=music&limit=1");
  const screens = {
    home: ["", ".tile"], films: ["library?kind=film", ".tile"], folder: [`library?${at("Films")}`, ".entry"], search: ["search?q=the", ".tile"],
    file: [`file?${at("Films/Tides (2026).mkv")}`, ".media-info"], ...(series && { series: [`series?id=${series.id}`, ".episode"] }),
    play: [`play?${at("Films/Ember (2026).mp4")}`, "video"], book: [`book?${at("Audiobooks/By the Fire.m4b")}`, ".cover"],
    ...(album && { album: [`album?${new URLSearchParams({ folder: album.folder, album: album.title })}`, ".track-list"], music: [`play?${new URLSearchParams({ path: track.mediaPath })}`, ".cover"] }),
    guide: ["guide", ".cell, .now-row, .card"], preferences: ["settings", ".tab h2"], playing: ["settings?tab=playing", ".tab h2"], mediaFolders: ["settings?tab=folders", ".folder-list"], server: ["settings?tab=server", "dl"], graphs: ["settings?tab=graphs", ".graph .line"], log: ["settings?tab=log", ".log li"],
    pipelines: ["settings?tab=pipelines", "summary"], players: ["settings?tab=tokens", ".tab form"], profile: ["settings?tab=account", ".avatars"], profiles: ["profiles", ".profiles .avatar"],
    sources: ["settings?tab=sources", ".tab form"], recordings: ["recordings", ".tabs"], channels: ["settings?tab=channels&channel=new", ".next-day"],
    users: ["settings?tab=users", "tbody td"], devices: ["settings?tab=devices", "tbody td"], welcome: ["welcome", ".choices button"],
  };
  const findings = [];
  const storageState = await page.context().storageState();
  // The sizes are checked at the same time, each in a page that is loaded once.
  await Promise.all(Object.entries(SIZES).map(async ([size, [width, height, colorScheme, otherScheme]]) => {
    const other = await openPage("", { width, height }, server, storageState);
    // The progress that one size saves must not redraw the home of another while axe reads it.
    await other.page.route("**/api/events", (route) => route.fulfill({ contentType: "text/event-stream", body: "" }));
    await other.page.goto(`${server.base}/#/library`);
    await other.step(`access-${size}`, async () => {
      for (const [screen, [address, selector]] of Object.entries(screens)) {
        await other.page.emulateMedia({ colorScheme });
        await other.goToScreen(address);
        await other.page.locator(selector).first().waitFor();
        await other.page.evaluate(() => document.querySelector(".media-info")?.setAttribute("open", ""));
        if (screen === "log") await other.page.evaluate(removeSimilarLines, MAX_LOG_LINES);
        findings.push(...(await runAxe(other.page)).map((finding) => `${screen} on a ${size}: ${finding}`));
        await other.assertNoSidewaysScroll();
        await other.screenshot(`${size}-${screen}`);
        await other.page.emulateMedia({ colorScheme: otherScheme });
        findings.push(...(await runAxe(other.page, "color-contrast")).map((finding) => `${screen} on a ${otherScheme} ${size}: ${finding}`));
      }
    });
    other.assertClean();
    await other.page.close();
  }));
  const fresh = await openPage("");
  await fresh.page.goto(server.base);
  await fresh.page.getByLabel("Name").waitFor();
  findings.push(...(await runAxe(fresh.page)).map((finding) => `sign-in: ${finding}`));
  await fresh.page.close();
  assert.deepEqual(findings, []);
}

/** Runs in the page. Removes lines of the log, so that at most `max` of each level are left. */
function removeSimilarLines(max) {
  const counts = {};
  for (const line of document.querySelectorAll(".log li")) {
    counts[line.className] = (counts[line.className] ?? 0) + 1;
    if (counts[line.className] > max) line.remove();
  }
}

/** Violations above minor, of one rule or of all. */
export async function runAxe(page, rule) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  // Violations only: listing passes takes minutes on a busy machine.
  const { violations, passes } = await page.evaluate((rule) =>
    window.axe.run(document, { resultTypes: ["violations"], preload: false, ...(rule && { runOnly: [rule] }) }), rule);
  assert.ok(rule || passes.length > 8, "axe must have checked something");
  const grave = violations.filter(({ impact }) => impact !== "minor");
  return grave.map(({ id, nodes }) => `${id} (${nodes.length}): ${nodes[0].html.slice(0, 160)} ${nodes[0].any[0]?.message ?? ""}`);
}
