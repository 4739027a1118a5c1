// The first minutes: the account, the library, and a channel that plays.

import assert from "node:assert/strict";
import { NAME, PASSWORD } from "./kit.mjs";

/** From the link to a playing channel, ms, without the time its samples take to make. */
const MOST = 60_000;

export async function setUp(kit) {
  const { page, server, step, press, playing } = kit;
  await server.ready();
  const began = Date.now();
  await step("set-up", async () => {
    await page.goto(server.link);
    await page.getByLabel("Name").fill(NAME);
    await page.getByLabel("Password").fill(PASSWORD);
    assert.match(await page.getByLabel("Set-up code").inputValue(), /^[a-z0-9-]{20,}$/);
  });
  await page.getByRole("button", { name: "Create account" }).click();
  await step("set-up-first-channel", () => page.getByRole("button", { name: "Films" }).waitFor());
  await page.getByRole("button", { name: "Films" }).click();
  await step("set-up-on-air", () => page.getByRole("link", { name: "Watch" }).waitFor());
  await page.getByRole("link", { name: "Watch" }).click();
  await step("set-up-plays", () => playing("video"));
  console.log(`ok from the link to a channel that plays: ${((Date.now() - began) / 1000).toFixed(1)} s`);
  assert.ok(Date.now() - began < MOST, "a minute is enough");

  // Left first: a channel that is deleted under somebody's eyes is a step of its own (live).
  await press("Escape");
  await page.locator(".tile, .card, .cell").first().waitFor();
  const { body } = await kit.api("GET", "/api/livetv/channels");
  for (const { id } of body.channels) await kit.api("DELETE", `/api/livetv/channels/${id}`);
  await kit.screen("");
  await page.getByText("Nothing has been watched yet").waitFor();
}
