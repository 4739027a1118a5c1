// Live TV by remote control: from home, channel up, by number, last channel, watch from start, skip.

import assert from "node:assert/strict";
import { waitUntil } from "./program.mjs";

/** Most key presses from home to a playing channel. */
const MAX_PRESSES = 6;

export async function live(kit, openPage) {
  const { page, server, step, press, waitUntilPlaying, faults } = kit;
  const films = [`${server.media}/Films/Ember (2026).mp4`, `${server.media}/Films/Tides (2026).mkv`];
  for (const [n, film] of films.entries()) {
    const { status } = await kit.api("POST", "/api/livetv/channels", { name: `Live ${n + 1}`, number: 901 + n, items: [{ path: film }] });
    assert.equal(status, 201);
  }
  const channelName = () => page.locator(".live-player h1").textContent();
  const waitForChannel = (channel) => waitUntil(`${channel} is shown`, async () => (await channelName()) === channel);

  await step("live-from-home-by-remote", async () => {
    await kit.openScreen("");
    await page.locator("[data-row=on-now] .tile").first().waitFor();
    let presses = 1;
    for (; presses < MAX_PRESSES; presses += 1) {
      await press("ArrowDown");
      if (await page.evaluate(() => document.activeElement.closest("[data-row=on-now]"))) break;
    }
    await press("Enter");
    await waitUntil("a channel is shown", async () => /\d/.test(await channelName()));
    await waitUntilPlaying("video");
    console.log(`ok from home to a playing channel: ${presses + 1} presses`);
    assert.ok(presses + 1 <= MAX_PRESSES);
    await press("9", "0", "1", "Enter");
    await waitForChannel("901 Live 1");
    await waitUntilPlaying("video");
    await page.getByText(/^Ember/).waitFor({ state: "attached" });
  });

  await step("live-overlay-hides", async () => {
    await waitUntil("the overlay hides", () => page.locator(".player.idle").count());
  });

  await step("live-channel-up", async () => {
    await press("ArrowUp");
    await waitForChannel("902 Live 2");
    await waitUntilPlaying("video");
  });

  await step("live-by-number-and-back", async () => {
    await press("9", "0");
    await page.getByText("90", { exact: true }).waitFor();
    await press("1", "Enter");
    await waitForChannel("901 Live 1");
    await press("l");
    await waitForChannel("902 Live 2");
    await waitUntilPlaying("video");
  });

  await step("live-playback-info", async () => {
    await press("i");
    await page.getByText("Behind live").waitFor();
    await press("i");
    await press("m");
    assert.ok(await page.evaluate(() => document.querySelector("video").muted), "the key mutes");
    await press("m");
  });

  await step("live-watch-from-start", async () => {
    await kit.pressOverlayButton("Watch from start");
    await waitUntilPlaying("video");
    await kit.pressOverlayButton("Go to live");
    await waitUntilPlaying("video");
  });

  await step("live-list", async () => {
    await press("g");
    assert.match((await kit.getFocused()).text, /902 Live 2/);
    await press("ArrowUp", "Enter");
    await waitForChannel("901 Live 1");
    await waitUntilPlaying("video");
  });

  await step("live-many-changes", async () => {
    const memory = await page.context().newCDPSession(page);
    const heapMegabytes = async () => {
      await memory.send("HeapProfiler.collectGarbage");
      return (await memory.send("Runtime.getHeapUsage")).usedSize / 1e6;
    };
    const changeChannels = async (times) => {
      for (let n = 0; n < times; n += 1) {
        await press("PageUp");
        await page.waitForTimeout(30);
      }
      await waitUntilPlaying("video");
    };
    await changeChannels(20); // Everything that is loaded once is loaded after these.
    const [before, elements] = [await heapMegabytes(), await page.locator("*").count()];
    await changeChannels(60);
    const after = await heapMegabytes();
    console.log(`ok 60 changes of channel: ${before.toFixed(1)} MB before, ${after.toFixed(1)} MB after`);
    assert.ok(after < before + 1, `memory grew from ${before} to ${after} MB`);
    assert.equal(await page.locator("*").count(), elements);
  });

  const deletedChannel = await channelName();
  await step("live-channel-deleted", async () => {
    kit.assertClean();
    const { body } = await kit.api("GET", "/api/livetv/channels");
    const { id } = body.channels.find((channel) => `${channel.number} ${channel.name}` === deletedChannel);
    await kit.api("DELETE", `/api/livetv/channels/${id}`);
    await page.getByRole("alert").filter({ hasText: "This channel no longer exists" }).waitFor();
    faults.splice(0, faults.length, ...faults.filter((fault) => !(/404/.test(fault) && fault.includes(`/watch/${id}`))));
    await press("PageUp");
    await waitUntil("another channel is shown", async () => (await channelName()) !== deletedChannel);
    await waitUntilPlaying("video");
  });

  await step("live-skip", async () => {
    const { body } = await kit.api("POST", "/api/livetv/channels", { name: "Mine", number: 903, scheduleMode: "sequential", onDemand: true, items: films.map((path) => ({ path })) });
    const { id } = body.channel;
    await kit.openScreen(`watch?channel=${id}`);
    await waitForChannel("903 Mine");
    await waitUntilPlaying("video");
    const nowTitle = page.locator(".live-player .now-title");
    await waitUntil("the first film is on", async () => /^Ember/.test(await nowTitle.textContent()));
    assert.equal(await page.getByRole("button", { name: "Record" }).count(), 0, "an on-demand channel cannot be recorded");
    await kit.pressOverlayButton("Skip");
    await waitUntil("the next is on", async () => /^Tides/.test(await nowTitle.textContent()));
    await page.getByText(/^Skipping to Tides/).waitFor({ state: "attached" });
    await kit.screenshot("live-skipped");
    await waitUntilPlaying("video", (await kit.position("video")) + 10);

    // Users without the right to skip see no button.
    assert.equal((await kit.api("POST", "/api/users", { username: "bea", password: "another long evening" })).status, 201);
    const guest = await openPage("");
    await guest.signIn("bea", "another long evening");
    await guest.openScreen(`watch?channel=${id}`);
    await guest.waitUntilPlaying("video");
    await waitUntil("the guest sees what is on", async () => /^(Ember|Tides)/.test(await guest.page.locator(".live-player .now-title").textContent()));
    assert.ok(!(await guest.page.locator("button", { hasText: /^Skip$/ }).isVisible()));
    guest.assertClean();
    await guest.page.close();

    // A refusal is shown.
    kit.assertClean();
    assert.equal((await kit.api("PATCH", `/api/livetv/channels/${id}`, { onDemand: false })).status, 200);
    await kit.pressOverlayButton("Skip");
    await page.getByRole("alert").filter({ hasText: "can’t be skipped" }).waitFor();
    faults.splice(0, faults.length, ...faults.filter((fault) => !(/409/.test(fault) && fault.includes("/skip"))));
    await kit.openScreen("");
    await page.locator("[data-row=on-now] .tile").first().waitFor();
    assert.equal((await kit.api("DELETE", `/api/livetv/channels/${id}`)).status, 200);
  });
}
