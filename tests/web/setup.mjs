// Set-up: the account, the first channel, and its playback.

import assert from "node:assert/strict";
import { NAME, PASSWORD } from "./kit.mjs";

/** Most time from the link to a playing channel, without generating the sample media, ms. */
const MAX_SETUP_MS = 60_000;

export async function setUp(kit) {
  const { page, server, step, press, waitUntilPlaying } = kit;
  await server.whenMediaReady();
  const began = Date.now();
  await step("set-up", async () => {
    await page.goto(server.link);
    await page.getByLabel("Name").fill(NAME);
    await page.getByLabel("Password").fill(PASSWORD);
    const code = page.locator("[name=code]");
    assert.match(await code.inputValue(), /^[a-z0-9-]{20,}$/);
    assert.ok(!(await code.isVisible()), "the link brought the code");
  });
  await page.getByRole("button", { name: "Create account" }).click();
  await step("set-up-first-channel", () => page.getByRole("button", { name: "Films" }).waitFor());
  await page.getByRole("button", { name: "Films" }).click();
  await step("set-up-on-air", () => page.getByRole("link", { name: "Watch" }).waitFor());
  await page.getByRole("link", { name: "Watch" }).click();
  await step("set-up-plays", () => waitUntilPlaying("video"));
  console.log(`ok from the link to a channel that plays: ${((Date.now() - began) / 1000).toFixed(1)} s`);
  assert.ok(Date.now() - began < MAX_SETUP_MS, "set-up must take less than a minute");

  // The page leaves the channel first; `live` tests one that is deleted while it plays.
  await press("Escape");
  await page.locator(".tile, .card, .cell").first().waitFor();
  const { body } = await kit.api("GET", "/api/livetv/channels");
  for (const { id } of body.channels) await kit.api("DELETE", `/api/livetv/channels/${id}`);
  await kit.openScreen("");
  await page.locator("[data-row=recent-films] .tile").first().waitFor();
}
