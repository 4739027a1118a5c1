// Home: continue watching, also from another device, and playback by remote control alone.

import assert from "node:assert/strict";
import { waitUntil } from "./program.mjs";

export async function home(kit, openPage) {
  const { page, server, step, press, waitUntilPlaying, position, seek } = kit;
  const film = (name) => `${server.media}/Films/${name}`;
  const save = (from, name, positionSeconds) =>
    from.api("POST", "/api/stream/progress", { mediaPath: film(name), positionSeconds, durationSeconds: 60 });

  await step("home", async () => {
    await save(kit, "Ember (2026).mp4", 24);
    await save(kit, "Tides (2026).mkv", 42);
    await kit.openScreen("");
    await page.getByRole("heading", { name: "Continue watching" }).waitFor();
    const first = page.locator("[data-row=continue-watching] .tile").first();
    assert.match(await first.textContent(), /Tides/);
    const progress = await first.locator(".progress div").evaluate((bar) => bar.getBoundingClientRect().width / bar.parentElement.getBoundingClientRect().width);
    assert.ok(Math.abs(progress - 0.7) < 0.02, `the bar must show the progress: ${progress}`);
  });

  await step("home-moves-with-another-device", async () => {
    const other = await openPage("other-");
    await other.signIn();
    // In its last 30 s a film is not resumed, but starts over.
    await other.openScreen(`play?${new URLSearchParams({ path: film("Ember (2026).mp4"), at: 15 })}`);
    await other.waitUntilPlaying("video", 14);
    await other.page.evaluate(() => document.querySelector("video").pause());
    const otherPosition = await other.position("video");
    const first = page.locator("[data-row=continue-watching] .tile").first();
    await waitUntil("the other film is first, with its progress", async () => {
      const progress = await first.locator(".progress div").evaluate((bar) => parseFloat(bar.style.width)).catch(() => 0);
      return /Ember/.test(await first.textContent()) && Math.abs(progress - otherPosition / 60 * 100) < 2;
    });
    await first.click();
    await waitUntilPlaying("video", otherPosition - 1);
    await seek("video", 45);
    await waitUntilPlaying("video", 45);
    await page.evaluate(() => document.querySelector("video").pause());
    const ownPosition = await position("video");
    await other.press("Escape");
    await other.openScreen("");
    const otherProgress = other.page.locator("[data-row=continue-watching] .tile").first().locator(".progress div");
    await waitUntil("the first device's progress arrives", async () => (await otherProgress.evaluate((bar) => parseFloat(bar.style.width)).catch(() => 0)) > (ownPosition - 2) / 60 * 100);
    await other.page.close();
    await press("Escape");
    await page.locator("[data-row=continue-watching] .tile").first().waitFor();
  });

  await step("home-to-playback-by-remote", async () => {
    await page.reload();
    await page.locator("[data-row=continue-watching] .tile").first().waitFor();
    await press("ArrowRight");
    assert.equal((await kit.getFocused()).text, "Resume", "the hero comes first");
    await press("ArrowDown");
    const focused = await kit.getFocused();
    assert.ok(focused.inView && /Tides|Ember/.test(focused.text), JSON.stringify(focused));
    await press("Enter");
    await waitUntilPlaying("video"); // So near the end, it starts over.
    await press("Escape");
    await page.locator("[data-row=continue-watching] .tile").first().waitFor();
    await waitUntil("the focus is back on the tile", async () => /Tides|Ember/.test((await kit.getFocused()).text));
  });

  await step("home-phone", async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await kit.assertNoSidewaysScroll();
  });
  await page.setViewportSize({ width: 1920, height: 1080 });
  await step("home-television", async () => {
    await page.reload();
    await page.locator(".tile").first().waitFor();
    await press("ArrowDown", "ArrowDown", "ArrowUp");
    assert.ok((await kit.getFocused()).inView);
  });
  await page.setViewportSize({ width: 1280, height: 800 });
}
