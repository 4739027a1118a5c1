// Watching channels: from home by a remote, up and down, by number, back to the last one, from the start.

import assert from "node:assert/strict";
import { until } from "./program.mjs";

/** From home to a channel that plays. */
const MOST_PRESSES = 6;

export async function live(kit, another) {
  const { page, server, step, press, playing, faults } = kit;
  const films = [`${server.media}/Films/Ember (2026).mp4`, `${server.media}/Films/Tides (2026).mkv`];
  for (const [n, film] of films.entries()) {
    const { status } = await kit.api("POST", "/api/livetv/channels", { name: `Live ${n + 1}`, number: 901 + n, items: [{ path: film }] });
    assert.equal(status, 201);
  }
  const name = () => page.locator(".tv h1").textContent();
  const on = (wanted) => until(`${wanted} is shown`, async () => (await name()) === wanted);

  await step("live-from-home-by-remote", async () => {
    await kit.screen("");
    await page.locator("[data-row=on-now] .tile").first().waitFor();
    let presses = 1;
    for (; presses < MOST_PRESSES; presses += 1) {
      await press("ArrowDown");
      if (await page.evaluate(() => document.activeElement.closest("[data-row=on-now]"))) break;
    }
    await press("Enter");
    await until("a channel is shown", async () => /\d/.test(await name()));
    await playing("video");
    console.log(`ok from home to a playing channel: ${presses + 1} presses`);
    assert.ok(presses + 1 <= MOST_PRESSES);
    await press("9", "0", "1", "Enter");
    await on("901 Live 1");
    await playing("video");
    await page.getByText(/^Ember/).waitFor({ state: "attached" });
  });

  await step("live-overlay-goes", async () => {
    await until("what lies over the picture goes away", () => page.locator(".player.idle").count());
  });

  await step("live-channel-up", async () => {
    await press("ArrowUp");
    await on("902 Live 2");
    await playing("video");
  });

  await step("live-by-number-and-back", async () => {
    await press("9", "0");
    await page.getByText("90", { exact: true }).waitFor();
    await press("1", "Enter");
    await on("901 Live 1");
    await press("l");
    await on("902 Live 2");
    await playing("video");
  });

  await step("live-figures", async () => {
    await press("i");
    await page.getByText("Behind the newest").waitFor();
    await press("i");
  });

  await step("live-start-over", async () => {
    await kit.pressOver("Start over");
    await playing("video");
    await kit.pressOver("Live");
    await playing("video");
  });

  await step("live-list", async () => {
    await press("g");
    assert.match((await kit.focused()).text, /902 Live 2/);
    await press("ArrowUp", "Enter");
    await on("901 Live 1");
    await playing("video");
  });

  await step("live-many-changes", async () => {
    const memory = await page.context().newCDPSession(page);
    const used = async () => {
      await memory.send("HeapProfiler.collectGarbage");
      return (await memory.send("Runtime.getHeapUsage")).usedSize / 1e6;
    };
    const change = async (times) => {
      for (let n = 0; n < times; n += 1) {
        await press("PageUp");
        await page.waitForTimeout(30);
      }
      await playing("video");
    };
    await change(20); // What is loaded once is loaded by then.
    const [before, elements] = [await used(), await page.locator("*").count()];
    await change(200);
    const after = await used();
    console.log(`ok 200 changes of channel: ${before.toFixed(1)} MB before, ${after.toFixed(1)} MB after`);
    assert.ok(after < before + 3, `memory grew from ${before} to ${after} MB`);
    assert.equal(await page.locator("*").count(), elements);
  });

  const shown = await name();
  await step("live-deleted-while-it-plays", async () => {
    kit.clean();
    const { body } = await kit.api("GET", "/api/livetv/channels");
    const { id } = body.channels.find((channel) => `${channel.number} ${channel.name}` === shown);
    await kit.api("DELETE", `/api/livetv/channels/${id}`);
    await page.getByRole("alert").filter({ hasText: "There is no such channel" }).waitFor();
    faults.splice(0, faults.length, ...faults.filter((fault) => !(/404/.test(fault) && fault.includes(`/watch/${id}`))));
    await press("PageUp");
    await until("another channel is shown", async () => (await name()) !== shown);
    await playing("video");
  });

  await step("live-skip", async () => {
    const { body } = await kit.api("POST", "/api/livetv/channels", { name: "Mine", number: 903, scheduleMode: "sequential", onDemand: true, items: films.map((path) => ({ path })) });
    const { id } = body.channel;
    await kit.screen(`watch?channel=${id}`);
    await on("903 Mine");
    await playing("video");
    const told = page.locator(".tv .what");
    await until("the first film is on", async () => /^Ember/.test(await told.textContent()));
    assert.equal(await page.getByRole("button", { name: "Record" }).count(), 0, "nothing of it can be recorded");
    await kit.pressOver("Skip");
    await until("the next is on", async () => /^Tides/.test(await told.textContent()));
    await page.getByText(/^Tides.* comes in a few seconds/).waitFor({ state: "attached" });
    await kit.picture("live-skipped");
    await playing("video", (await kit.position("video")) + 10);

    // Who may not skip is not asked to.
    assert.equal((await kit.api("POST", "/api/users", { username: "bea", password: "another long evening" })).status, 201);
    const guest = await another("");
    await guest.signIn("bea", "another long evening");
    await guest.screen(`watch?channel=${id}`);
    await guest.playing("video");
    await until("the guest is told what is on", async () => /^(Ember|Tides)/.test(await guest.page.locator(".tv .what").textContent()));
    assert.ok(!(await guest.page.locator("button", { hasText: /^Skip$/ }).isVisible()));
    guest.clean();
    await guest.page.close();

    // What is refused is said.
    kit.clean();
    assert.equal((await kit.api("PATCH", `/api/livetv/channels/${id}`, { onDemand: false })).status, 200);
    await kit.pressOver("Skip");
    await page.getByRole("alert").filter({ hasText: "Mine is not onDemand" }).waitFor();
    faults.splice(0, faults.length, ...faults.filter((fault) => !(/409/.test(fault) && fault.includes("/skip"))));
    await kit.screen("");
    await page.locator("[data-row=on-now] .tile").first().waitFor();
    assert.equal((await kit.api("DELETE", `/api/livetv/channels/${id}`)).status, 200);
  });
}
