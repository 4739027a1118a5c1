// Channels and the guide: made in the settings, found in the guide, however many there are.

import assert from "node:assert/strict";
import { until } from "./program.mjs";
import { thousand } from "./thousand.mjs";

const MANY = 60;

export async function guide(kit, another) {
  const { page, server, step, press } = kit;
  const films = `${server.media}/Films`;
  await step("settings-channel-editor", async () => {
    await kit.screen("settings?tab=channels&channel=new");
    await page.getByLabel("Name").fill("Fireside");
    await page.getByRole("button", { name: /^Open (media|demo)/ }).click();
    await page.getByRole("button", { name: "+ Films" }).click();
    await page.getByRole("button", { name: "Preview 24 hours" }).click();
    await page.getByRole("cell", { name: /Ember/ }).first().waitFor();
    await page.getByLabel("Ready at all times").check();
    await page.getByLabel("Only while somebody watches").check();
    assert.ok(!(await page.getByLabel("Ready at all times").isChecked()), "one of them");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("cell", { name: "Fireside" }).waitFor();
  });

  await step("settings-channel-changed", async () => {
    await page.getByRole("row").filter({ hasText: "Fireside" }).getByRole("link", { name: "Change" }).click();
    await page.getByRole("button", { name: "Remove: Films" }).waitFor();
    await page.getByLabel("Name").fill("By the Fireside");
    await page.getByLabel("Order").selectOption({ label: "In order" });
    assert.ok(await page.getByLabel("Only while somebody watches").isChecked(), "as it was saved");
    await page.getByLabel("Only while somebody watches").uncheck();
    await page.getByRole("button", { name: "Preview 24 hours" }).click();
    await page.getByRole("cell", { name: /Night Train/ }).first().waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("cell", { name: "By the Fireside" }).waitFor();
    const { body } = await kit.api("GET", "/api/livetv/channels");
    const { scheduleMode, onDemand, alwaysOn } = body.channels.find(({ name }) => name === "By the Fireside");
    assert.deepEqual([scheduleMode, onDemand, alwaysOn], ["sequential", false, false]);
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

  const other = await another("");
  await other.signIn();
  await thousand(other.page);
  await other.step("guide-of-a-thousand-channels", async () => {
    const asked = () => other.asked.filter((line) => line.includes("/api/livetv/epg")).length;
    await other.screen("guide");
    await other.page.locator(".cell.on-air").first().waitFor();
    const cells = () => other.page.locator(".cell, .grid-channel").count();
    let most = await cells();
    assert.ok(asked() <= 4, `${asked()} requests for what is seen first`);
    for (const [x, y] of [[20_000, 30_000], [45_000, 67_000], [0, 12_345]]) {
      const before = asked();
      await other.page.locator(".grid").evaluate((grid, [x, y]) => grid.scrollTo(x, y), [x, y]);
      await until("programmes come", async () => asked() > before && (await other.page.locator(".cell").count()) > 10);
      most = Math.max(most, await cells());
      assert.ok(asked() - before <= 6, `${asked() - before} requests for one window`);
    }
    assert.ok(most <= 400, `${most} cells are in the page`);
  });
  await other.step("guide-far-away-by-remote", async () => {
    // The focus is there at once, on the channel while its programme has still to come.
    for (let n = 0; n < 12; n += 1) {
      const held = await other.page.evaluate(() => {
        document.dispatchEvent(new KeyboardEvent("keydown", { key: "PageDown", bubbles: true }));
        return document.activeElement.matches(".cell, .grid-channel");
      });
      assert.ok(held, "every press is answered before it ends");
    }
    await until("on a programme", () => other.page.evaluate(() => document.activeElement.matches(".cell")));
  });
  other.clean();
  await other.page.close();

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
