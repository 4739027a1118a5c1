// The main paths in Debian's Firefox: sign-in, home, library, a film, search, a channel, preferences. playwright-core drives it by
// WebDriver BiDi.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { firefox as engine } from "playwright-core";
import { createKit } from "./kit.mjs";
import { waitUntil } from "./program.mjs";

const PROGRAM = process.env.FIREFOX ?? "/usr/bin/firefox-esr";

/** Firefox draws in software here, so a small window takes less of the processor. */
const VIEWPORT = { width: 960, height: 600 };

export async function firefox({ server, api }, _, shots) {
  assert.ok(existsSync(PROGRAM), `${PROGRAM} is missing: run scripts/packages test, or set FIREFOX`);
  const { body: { channel } } = await api("POST", "/api/livetv/channels", { name: "Films", items: [{ path: `${server.media}/Films`, recursive: true }] });
  const preferences = { "media.autoplay.default": 0, "media.autoplay.blocking_policy": 0, "media.volume_scale": "0.0" };
  const browser = await engine.launch({ executablePath: PROGRAM, channel: "moz-firefox", firefoxUserPrefs: preferences });
  try {
    const kit = await createKit({ browser, server, shots, name: "firefox-", viewport: VIEWPORT, serviceWorkers: "allow" });
    const { page, step, waitUntilPlaying } = kit;
    await step("home", async () => {
      await kit.signIn();
      await page.locator("[data-row=recent-films] .tile").first().waitFor();
    });
    await step("film", async () => {
      await page.getByRole("link", { name: "Library" }).click();
      await page.getByRole("link", { name: "Films", exact: true }).click();
      await page.locator(".tile").filter({ hasText: "Ember" }).click();
      await page.locator(".actions .primary").click();
      await waitUntilPlaying("video");
      await kit.seek("video", 30);
      await waitUntilPlaying("video", 30);
      await kit.chooseOption("Subtitles", "English");
      await kit.waitForCue("A fire, and nothing to hurry for.", 3);
    });
    await step("search", async () => {
      await page.keyboard.press("Escape");
      await page.getByLabel("Search everything").fill("tides");
      await page.locator(".tile").filter({ hasText: "Tides" }).first().waitFor();
    });
    await step("channel", async () => {
      await page.getByRole("link", { name: "Guide", exact: true }).click();
      await page.locator(".cell.on-air").first().waitFor();
      await kit.goToScreen(`watch?channel=${channel.id}`);
      await waitUntilPlaying("video");
    });
    await step("preferences", async () => {
      await kit.goToScreen("settings");
      await page.getByLabel("Theme").selectOption({ label: "Light" });
      const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      await waitUntil("the colours are light", async () => (await background()) === "rgb(250, 247, 244)");
    });
    // A screenshot adds a style, which the page's CSP forbids in Firefox.
    assert.deepEqual(kit.faults.filter((fault) => !/style-src-elem/.test(fault)), []);
  } finally {
    await browser.close();
    await api("DELETE", `/api/livetv/channels/${channel.id}`);
  }
}
