// Home: what was begun, also elsewhere, and the way from there to a picture by a remote alone.

import assert from "node:assert/strict";
import { until } from "./program.mjs";

export async function home(kit, another) {
  const { page, server, step, press, playing, position, go } = kit;
  const film = (name) => `${server.media}/Films/${name}`;
  const save = (from, name, positionSeconds) =>
    from.api("POST", "/api/stream/progress", { mediaPath: film(name), positionSeconds, durationSeconds: 60 });

  await step("home", async () => {
    await save(kit, "Ember (2026).mp4", 24);
    await save(kit, "Tides (2026).mkv", 42);
    await kit.screen("");
    await page.getByRole("heading", { name: "Continue watching" }).waitFor();
    const first = page.locator("[data-row=go-on] .tile").first();
    assert.match(await first.textContent(), /Tides/);
    const share = await first.locator(".share div").evaluate((bar) => bar.getBoundingClientRect().width / bar.parentElement.getBoundingClientRect().width);
    assert.ok(Math.abs(share - 0.7) < 0.02, `as far as it is: ${share}`);
  });

  await step("home-moves-with-another-device", async () => {
    const other = await another("other-");
    await other.signIn();
    await other.screen(`play?${new URLSearchParams({ path: film("Ember (2026).mp4"), at: 30 })}`);
    await other.playing("video", 29);
    await other.page.evaluate(() => document.querySelector("video").pause());
    const left = await other.position("video");
    const first = page.locator("[data-row=go-on] .tile").first();
    await until("the other film comes first, as far as it is there", async () => {
      const share = await first.locator(".share div").evaluate((bar) => parseFloat(bar.style.width)).catch(() => 0);
      return /Ember/.test(await first.textContent()) && Math.abs(share - left / 60 * 100) < 2;
    });
    await first.click();
    await playing("video", left - 1);
    await go("video", 45);
    await playing("video", 45);
    await page.evaluate(() => document.querySelector("video").pause());
    const right = await position("video");
    await other.press("Escape");
    await other.screen("");
    const there = other.page.locator("[data-row=go-on] .tile").first().locator(".share div");
    await until("and back", async () => (await there.evaluate((bar) => parseFloat(bar.style.width)).catch(() => 0)) > (right - 2) / 60 * 100);
    await other.page.close();
    await press("Escape");
    await page.locator("[data-row=go-on] .tile").first().waitFor();
  });

  await step("home-to-a-picture-by-remote", async () => {
    await page.reload();
    await page.locator("[data-row=go-on] .tile").first().waitFor();
    await press("ArrowRight");
    const seen = await kit.focused();
    assert.ok(seen.inView && /Tides|Ember/.test(seen.text), JSON.stringify(seen));
    await press("Enter");
    await playing("video"); // So near its end it begins anew.
    await press("Escape");
    await page.locator("[data-row=go-on] .tile").first().waitFor();
    await until("the focus is where it was", async () => /Tides|Ember/.test((await kit.focused()).text));
  });

  await step("home-phone", async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await kit.fitsSideways();
  });
  await page.setViewportSize({ width: 1920, height: 1080 });
  await step("home-television", async () => {
    await page.reload();
    await page.locator(".tile").first().waitFor();
    await press("ArrowDown", "ArrowDown", "ArrowUp");
    assert.ok((await kit.focused()).inView);
  });
  await page.setViewportSize({ width: 1280, height: 800 });
}
