// Channels and the guide: made in the settings, found in the guide, however many there are.

import assert from "node:assert/strict";
import { until } from "./program.mjs";

const MANY = 60;

export async function guide(kit) {
  const { page, server, step, press } = kit;
  const films = `${server.media}/Films`;
  await step("settings-channel-editor", async () => {
    await kit.screen("settings?tab=channels&channel=new");
    await page.getByLabel("Name").fill("Fireside");
    await page.getByRole("button", { name: /^Open (media|demo)/ }).click();
    await page.getByRole("button", { name: "+ Films" }).click();
    await page.getByRole("button", { name: "Preview 24 hours" }).click();
    await page.getByRole("cell", { name: /Ember/ }).first().waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("cell", { name: "Fireside" }).waitFor();
  });

  await step("guide", async () => {
    const made = await page.evaluate(async ([films, many]) => {
      const headers = { Authorization: `Bearer ${localStorage.getItem("hearthcast.token")}`, "Content-Type": "application/json" };
      let last = 0;
      for (let n = 2; n <= many; n += 1) {
        const body = JSON.stringify({ name: `Channel ${n}`, number: n, items: [{ path: films, recursive: true }] });
        last = (await fetch("/api/livetv/channels", { method: "POST", headers, body })).status;
      }
      return last;
    }, [films, MANY]);
    assert.equal(made, 201);
    await kit.screen("guide");
    await page.locator(".cell.on-air").first().waitFor();
    const cells = await page.locator(".cell, .grid-channel").count();
    assert.ok(cells > 10 && cells <= 400, `${cells} cells are in the page`);
    await press("ArrowDown", "ArrowDown");
    await page.locator(".details h2").waitFor();
  });

  const cell = () => page.evaluate(() => {
    const element = document.activeElement;
    const { left, top, right, bottom } = element.getBoundingClientRect();
    const box = document.querySelector(".grid").getBoundingClientRect();
    return { label: element.textContent, seen: right > box.left + 168 && left < box.right && top >= box.top && bottom <= box.bottom + 1 };
  });
  const on = async (channel) => until(`the focus is on ${channel}`, async () => {
    const { label, seen } = await cell();
    return seen && label.endsWith(channel) && label;
  });
  await step("guide-by-remote", async () => {
    await on("Channel 2");
    await press("ArrowDown");
    const before = await on("Channel 3");
    await press("ArrowRight");
    await until("the next programme", async () => (await cell()).label !== before && (await cell()).label.endsWith("Channel 3"));
    await press("ArrowLeft");
    await until("and back", async () => (await cell()).label === before);
    for (let n = 0; n < 12; n += 1) await press("PageDown");
    await until("far down", async () => Number((await cell()).label.match(/Channel (\d+)$/)?.[1]) > 30);
    const took = await page.evaluate(() => new Promise((resolve) => {
      const began = performance.now();
      document.addEventListener("focusin", () => resolve(performance.now() - began), { once: true });
      document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowUp", bubbles: true }));
    }));
    console.log(`ok from a key to the focus: ${took.toFixed(1)} ms`);
    assert.ok((await page.locator(".cell, .grid-channel").count()) <= 400);
  });

  await step("guide-other-day", async () => {
    const today = await page.locator(".guide .day").textContent();
    await page.getByRole("button", { name: "Day after" }).click();
    await until("another day", async () => (await page.locator(".guide .day").textContent()) !== today);
    await page.locator(".cell").first().waitFor();
    await page.getByRole("button", { name: "Now", exact: true }).click();
    await page.locator(".cell.on-air").first().waitFor();
  });

  await step("guide-phone", async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await kit.fitsSideways();
  });
  await page.setViewportSize({ width: 1280, height: 800 });
  await step("settings", async () => {
    await kit.screen("settings?tab=users");
    await page.getByLabel("Name").fill("bob");
    await page.getByLabel("Password").fill("another long evening");
    await page.getByRole("button", { name: "Add" }).click();
    await page.getByRole("cell", { name: "bob" }).waitFor();
    await page.getByRole("button", { name: "Remove" }).click();
    await page.getByRole("button", { name: "Really remove?" }).click();
    await until("bob is gone", async () => (await page.getByRole("cell", { name: "bob" }).count()) === 0);
  });
}
