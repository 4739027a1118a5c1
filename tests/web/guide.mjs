// The channel editor and the guide, also with a thousand channels.

import assert from "node:assert/strict";
import { waitUntil } from "./program.mjs";
import { mockThousandChannels } from "./thousand-channels.mjs";

const CHANNEL_COUNT = 60;

export async function guide(kit, openPage) {
  const { page, server, step, press } = kit;
  const films = `${server.media}/Films`;
  await step("settings-channel-editor", async () => {
    await kit.openScreen("settings?tab=channels&channel=new");
    await page.getByLabel("Name").fill("Fireside");
    const content = page.getByRole("group", { name: "Content" });
    await content.getByRole("button", { name: "Folder or file" }).click();
    await page.getByRole("button", { name: /^Open (media|demo)/ }).click();
    await page.getByRole("button", { name: "+ Films" }).click();
    await page.locator(".preview-list").getByText(/Ember/).first().waitFor();
    await page.getByLabel("Always running").check();
    await page.getByLabel("Plays only while someone watches").check();
    assert.ok(!(await page.getByLabel("Always running").isChecked()), "only one of the two can be checked");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("cell", { name: "Fireside" }).waitFor();
  });

  await step("settings-channel-changed", async () => {
    await page.getByRole("row").filter({ hasText: "Fireside" }).getByRole("link", { name: "Edit" }).click();
    await page.getByRole("button", { name: "Remove: Films" }).waitFor();
    await page.getByLabel("Name").fill("By the Fireside");
    await page.getByRole("radio", { name: /^In order/ }).click();
    assert.ok(await page.getByLabel("Plays only while someone watches").isChecked(), "the saved value must be shown");
    await page.getByLabel("Plays only while someone watches").uncheck();
    await page.locator(".preview-list").getByText(/Night Train/).first().waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("cell", { name: "By the Fireside" }).waitFor();
    const { body } = await kit.api("GET", "/api/livetv/channels");
    const { scheduleMode, onDemand, alwaysOn } = body.channels.find(({ name }) => name === "By the Fireside");
    assert.deepEqual([scheduleMode, onDemand, alwaysOn], ["sequential", false, false]);
  });

  await step("guide", async () => {
    const made = await page.evaluate(async ([films, many]) => {
      const headers = { Authorization: `Bearer ${localStorage.getItem("hearthcast.token")}`, "Content-Type": "application/json" };
      const numbers = Array.from({ length: many - 1 }, (_, n) => n + 2);
      const responses = await Promise.all(numbers.map((number) => {
        const body = JSON.stringify({ name: `Channel ${number}`, number, items: [{ path: films, recursive: true }] });
        return fetch("/api/livetv/channels", { method: "POST", headers, body });
      }));
      return responses.every(({ status }) => status === 201);
    }, [films, CHANNEL_COUNT]);
    assert.ok(made, "all channels must be created");
    await kit.openScreen("guide");
    await page.locator(".cell.on-air").first().waitFor();
    const cells = await page.locator(".cell, .grid-channel").count();
    assert.ok(cells > 10 && cells <= 400, `${cells} cells in the DOM`);
    await press("ArrowDown", "ArrowDown");
    await page.locator(".details h2").waitFor();
  });

  const focusedCell = () => page.evaluate(() => {
    const element = document.activeElement;
    const { left, top, right, bottom } = element.getBoundingClientRect();
    const box = document.querySelector(".grid").getBoundingClientRect();
    return { label: element.textContent, isVisible: right > box.left + 168 && left < box.right && top >= box.top && bottom <= box.bottom + 1 };
  });
  const waitForFocusOn = async (channel) => waitUntil(`the focus is on ${channel}`, async () => {
    const { label, isVisible } = await focusedCell();
    return isVisible && label.endsWith(channel) && label;
  });
  await step("guide-by-remote", async () => {
    await waitForFocusOn("Channel 2");
    await press("ArrowDown");
    const before = await waitForFocusOn("Channel 3");
    await press("ArrowRight");
    await waitUntil("the next programme", async () => (await focusedCell()).label !== before && (await focusedCell()).label.endsWith("Channel 3"));
    await press("ArrowLeft");
    await waitUntil("and back", async () => (await focusedCell()).label === before);
    // How many rows a page has depends on the details below it, so not a fixed number of times: the last rows have other names.
    await waitUntil("many rows down", async () => {
      if (Number((await focusedCell()).label.match(/Channel (\d+)$/)?.[1]) > 30) return true;
      await press("PageDown");
      return false;
    });
    assert.ok((await page.locator(".cell, .grid-channel").count()) <= 400);
  });

  await step("guide-other-day", async () => {
    const today = await page.getByLabel("Day", { exact: true }).inputValue();
    await page.getByRole("button", { name: "Next day" }).click();
    await waitUntil("another day", async () => (await page.getByLabel("Day", { exact: true }).inputValue()) !== today);
    await page.locator(".cell").first().waitFor();
    await page.getByRole("button", { name: "Now", exact: true }).click();
    await page.locator(".cell.on-air").first().waitFor();
  });

  await step("guide-plays-what-is-marked-as-on-air", async () => {
    // Marks are up to half a minute old: the programmes end now, and theirs stay.
    await page.evaluate(() => {
      const { now } = Date;
      Date.now = () => now() + 3_600_000;
    });
    // Not by the mouse: shortly before a quarter of an hour the first cell of a new channel is narrow, and beneath the next one.
    await page.locator(".cell.on-air").first().evaluate((cell) => cell.click());
    await page.waitForURL(/#\/watch/);
    await kit.openScreen("guide");
    await page.locator(".cell.on-air").first().waitFor();
  });

  const other = await openPage("", undefined, server, await page.context().storageState());
  await mockThousandChannels(other.page);
  await other.step("guide-of-a-thousand-channels", async () => {
    const epgRequests = () => other.requests.filter((line) => line.includes("/api/livetv/epg")).length;
    await other.page.goto(`${server.base}/#/guide`);
    await other.page.locator(".cell.on-air").first().waitFor();
    const cells = () => other.page.locator(".cell, .grid-channel").count();
    let maxCells = await cells();
    assert.ok(epgRequests() <= 4, `${epgRequests()} requests for the first view`);
    for (const [x, y] of [[20_000, 30_000], [45_000, 67_000], [0, 12_345]]) {
      const before = epgRequests();
      await other.page.locator(".grid").evaluate((grid, [x, y]) => grid.scrollTo(x, y), [x, y]);
      await waitUntil("programmes appear", async () => epgRequests() > before && (await other.page.locator(".cell").count()) > 10);
      maxCells = Math.max(maxCells, await cells());
      assert.ok(epgRequests() - before <= 6, `${epgRequests() - before} requests for one view`);
    }
    assert.ok(maxCells <= 400, `${maxCells} cells in the DOM`);
  });
  await other.step("guide-far-away-by-remote", async () => {
    // The focus moves at once, to the channel while its programme is still loading.
    for (let n = 0; n < 12; n += 1) {
      const isFocused = await other.page.evaluate(() => {
        document.dispatchEvent(new KeyboardEvent("keydown", { key: "PageDown", bubbles: true }));
        return document.activeElement.matches(".cell, .grid-channel");
      });
      assert.ok(isFocused, "every key press must move the focus at once");
    }
    await waitUntil("the focus is on a programme", () => other.page.evaluate(() => document.activeElement.matches(".cell")));
  });
  other.assertClean();
  await other.page.close();

  await step("guide-phone", async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await page.locator(".now-row .title").first().waitFor();
    await kit.assertNoSidewaysScroll();
  });
  await page.setViewportSize({ width: 1280, height: 800 });
  await step("settings", async () => {
    await kit.openScreen("settings?tab=users");
    await page.getByLabel("Name").fill("bob");
    await page.getByLabel("Password").fill("another long evening");
    await page.getByRole("button", { name: "Add" }).click();
    await page.getByRole("cell", { name: "bob" }).waitFor();
    const bob = page.getByRole("row").filter({ hasText: "bob" });
    await bob.getByRole("button", { name: "Remove" }).click();
    await bob.getByRole("button", { name: "Tap again to remove" }).click();
    await waitUntil("bob is gone", async () => (await page.getByRole("cell", { name: "bob" }).count()) === 0);
  });
}
