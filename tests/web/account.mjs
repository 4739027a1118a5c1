// Signing out and in again, and a film on a phone.

import assert from "node:assert/strict";
import { NAME, PASSWORD } from "./kit.mjs";

export async function account(kit) {
  const { page, step, waitUntilPlaying, faults } = kit;
  await kit.openScreen("");
  await step("signed-out", async () => {
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Welcome back" }).waitFor();
    await page.getByLabel("Name").fill(NAME);
    await page.getByLabel("Password").fill("not the password");
    kit.assertClean(); // The next request is refused on purpose, and browsers log that.
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").filter({ hasText: "Wrong name or password" }).waitFor();
    faults.splice(0, faults.length, ...faults.filter((fault) => !/401/.test(fault)));
  });

  await page.setViewportSize({ width: 390, height: 844 });
  await step("phone", async () => {
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("link", { name: "Library" }).click();
    await page.getByRole("link", { name: /media|demo/i }).click();
    await page.getByRole("link", { name: "Films" }).click();
    await page.getByRole("link", { name: /^Ember/ }).click();
    await waitUntilPlaying("video");
    await kit.assertNoSidewaysScroll();
  });
  await page.setViewportSize({ width: 1280, height: 800 });
  assert.equal(await page.evaluate(() => document.querySelectorAll("style, script:not([src])").length), 0, "no inline styles or scripts");
}
