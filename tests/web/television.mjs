// Television on the page, on a server that records: the guide with artwork, filter and marks, recordings, channels made from the
// library, and the channel editor. Everything is pressed at the size of a desktop and of a phone.

import assert from "node:assert/strict";
import { runAxe } from "./access.mjs";
import { waitUntil } from "./program.mjs";
import { SIZES, atSizes } from "./sizes.mjs";

const SHOW = "Slow Evenings";
const LENGTH_SECONDS = 1500; // Longer than what shares a cell in the guide.

export async function television({ server }, openPage) {
  const source = (colour) => ["-f", "lavfi", "-i", `color=c=${colour}:s=160x90:r=1:d=${LENGTH_SECONDS}`, "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "4"];
  for (const [number, colour] of [[1, "0x405070"], [2, "0x705040"]]) {
    const name = `Television/${SHOW}/Season 1/${SHOW} S01E0${number} Part ${number}`;
    server.writeMedia(`${name}.nfo`, `<episodedetails><title>Part ${number}</title><showtitle>${SHOW}</showtitle><season>1</season><episode>${number}</episode>`
      + `<plot>The fire burns low in part ${number}.</plot><genre>Drama</genre><actor><name>Inga Moll</name></actor></episodedetails>`);
    server.makeMedia(`${name}.mp4`, source(colour));
  }
  const recorder = await server.startSecond([], { HEARTHCAST_RECORDINGS: `${server.media}-television` });
  try {
    const desk = await openPage("", undefined, recorder);
    await desk.signIn();
    await desk.waitForItem("Part 2.mp4");
    const show = { path: `${server.media}/Television`, recursive: true };
    for (const body of [{ name: "Evenings", number: 1, scheduleMode: "sequential", items: [show] }, { name: "Laughter", number: 2, category: "Comedy", items: [{ path: `${server.media}/Films/Ember (2026).mp4` }] }]) {
      const { status } = await waitUntil("the files are probed", async () => {
        const answer = await desk.api("POST", "/api/livetv/channels", body);
        return answer.status !== 503 && answer;
      });
      assert.equal(status, 201);
    }
    await guideOnDesk(desk);
    await channelsOnDesk(desk, server);
    const phone = await openPage("phone-", { width: 390, height: 844 }, recorder, await desk.page.context().storageState(), true);
    await televisionOnPhone(phone, server);
    await recordingsOnDesk(desk);
    await recordAtSizes(desk, openPage, show);
    for (const kit of [desk, phone]) {
      kit.assertClean();
      await kit.page.context().close();
    }
  } finally {
    assert.equal(await recorder.stop(), 0);
  }
}

async function guideOnDesk(kit) {
  const { page, step } = kit;
  await step("television-guide", async () => {
    await kit.openScreen("guide");
    await page.locator(".cell.on-air").filter({ hasText: SHOW }).first().waitFor();
    await kit.press("ArrowDown");
    await page.locator(".details").getByText(/The fire burns low in part \d/).waitFor();
    await page.locator(".details .people").getByText("Inga Moll").waitFor();
    await page.locator(".details .art img").waitFor({ state: "attached" });
    for (const name of ["Watch", "Record"]) await kit.assertPressable(page.locator(".details").getByText(name, { exact: true }), name);
    assert.deepEqual(await runAxe(page), []);
  });

  await step("television-record", async () => {
    const marks = (name) => page.locator(".cell").filter({ has: page.getByRole("img", { name, exact: true }) });
    await page.locator(".details").getByRole("button", { name: "Recording options" }).click();
    assert.ok(await page.getByRole("radio", { name: /^Every programme/ }).isChecked(), "an episode is part of a series");
    await page.getByLabel("Start early").selectOption({ label: "2 minutes" });
    await page.getByLabel("Keep of the series").selectOption({ label: "The newest 5" });
    await page.getByLabel("Only new episodes").check();
    assert.deepEqual(await runAxe(page), []);
    await kit.assertPressable(page.getByRole("dialog").getByRole("button", { name: "Record", exact: true }), "record the series");
    await page.getByRole("dialog").getByRole("button", { name: "Record", exact: true }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await marks("Series recording").first().waitFor();
    assert.ok((await marks("Series recording").count()) <= 2 && (await page.locator(".cell").filter({ hasText: SHOW }).count()) > 2, "repeats are not marked");
    await page.locator(".details").getByText("Series recorded").waitFor();
    const { body: { series, recordings } } = await kit.api("GET", "/api/livetv/recordings");
    assert.deepEqual([series[0].title, series[0].newOnly, series[0].paddingSeconds.before, series[0].keep.count], [SHOW, true, 120, 5]);
    assert.ok(recordings.length > 0);
  });

  await step("television-filter", async () => {
    const rows = page.locator(".grid-channel");
    await page.getByLabel("Category").selectOption("Comedy");
    await waitUntil("one channel", async () => (await rows.count()) === 1 && /Laughter/.test(await rows.first().textContent()));
    await page.getByLabel("Category").selectOption("");
    await page.getByLabel("Filter the guide").fill("slow");
    await waitUntil("the channel of the show", async () => (await rows.count()) === 1 && /Evenings/.test(await rows.first().textContent()));
    await page.getByLabel("Filter the guide").fill("no such words");
    await page.getByText("No channel matches this filter.").waitFor();
    await page.getByLabel("Filter the guide").fill("");
    await waitUntil("all channels", async () => (await rows.count()) === 2);
    await page.locator(".cell.on-air").nth(1).waitFor();
    await page.locator(".cell").filter({ hasText: SHOW }).first().focus();
    await page.locator(".details").getByRole("button", { name: "Add Evenings to favourites" }).click();
    await page.getByRole("button", { name: "Only favourites" }).click();
    await waitUntil("the favourite", async () => (await rows.count()) === 1 && /Evenings/.test(await rows.first().textContent()));
    await page.getByRole("button", { name: "Only favourites" }).click();
    await waitUntil("all channels again", async () => (await rows.count()) === 2);
  });

  await step("television-jump", async () => {
    const days = page.getByLabel("Day", { exact: true });
    const tomorrow = await days.locator("option").nth(1).getAttribute("value");
    await days.selectOption(tomorrow);
    await page.getByLabel("Time", { exact: true }).selectOption("20");
    const label = await page.getByLabel("Time", { exact: true }).locator("option").nth(20).textContent();
    await page.locator(".grid-head").getByText(label, { exact: true }).waitFor();
    assert.equal(await days.inputValue(), tomorrow);
    await page.getByRole("button", { name: "Now", exact: true }).click();
    await page.locator(".cell.on-air").first().waitFor();
  });
}

async function channelsOnDesk(kit, server) {
  const { page, step } = kit;
  const findChannel = async (name) => {
    const { body: { channels } } = await kit.api("GET", "/api/livetv/channels");
    const { id } = channels.find((channel) => channel.name === name);
    return (await kit.api("GET", `/api/livetv/channels/${id}`)).body.channel;
  };
  await step("make-a-channel", async () => {
    const { body: { series: all } } = await kit.api("GET", "/api/library/series");
    const series = all.find(({ title }) => title === SHOW);
    const places = [[`library?${new URLSearchParams({ path: `${server.media}/Films` })}`, "folder", "Films"], [`series?id=${series.id}`, "series", SHOW],
      [`library?${new URLSearchParams({ person: "Inga Moll" })}`, "person", "Inga Moll"], ["search?q=evenings", "series", "evenings"], ["library?kind=film", "itemKind", "Films"]];
    for (const [n, [address, kind, name]] of places.entries()) {
      await kit.goToScreen(address);
      const button = page.getByRole("button", { name: "Make a channel" });
      await button.waitFor();
      await kit.assertPressable(button, `make a channel: ${kind}`);
      await button.click();
      const dialog = page.getByRole("dialog");
      assert.equal(await dialog.getByLabel("Name").inputValue(), name);
      await dialog.getByLabel("Name").fill(`Made ${n}`);
      if (n === 0) {
        assert.deepEqual(await runAxe(page), []);
        // Many files take a while to be read: the answer is kept until the page says so.
        await page.route("**/api/livetv/channels", async (route) => {
          if (route.request().method() === "POST") await dialog.getByText(/^Reading files \(\d+ s\)…$/).waitFor();
          await route.continue();
        });
      }
      await dialog.getByRole("button", { name: "Create channel" }).click();
      await dialog.getByText(`“Made ${n}” is now on air.`).waitFor();
      if (n === 0) await page.unroute("**/api/livetv/channels");
      assert.equal((await findChannel(`Made ${n}`)).items[0].rule.kind, kind);
      await dialog.getByRole("button", { name: "Close" }).click();
    }
  });

  await step("channel-by-rules", async () => {
    await kit.openScreen("settings?tab=channels&channel=new");
    await page.getByLabel("Name", { exact: true }).fill("By rules");
    const content = page.getByRole("group", { name: "Content" });
    await content.getByLabel("Add a rule…").selectOption({ label: "Genre" });
    const genre = content.getByLabel("Genre", { exact: true });
    await genre.locator("option", { hasText: "Drama" }).waitFor({ state: "attached" });
    await genre.selectOption("Drama");
    await content.getByText(/^\d+ titles$/).waitFor();
    await page.locator(".preview-list").getByText(/Slow Evenings · S1 E1/).first().waitFor();
    await content.getByRole("button", { name: "And also" }).click();
    await content.getByLabel("Rule").nth(1).selectOption({ label: "Series" });
    await waitUntil("the series is offered", async () => (await content.getByLabel("Series", { exact: true }).locator("option").count()) > 1);
    await content.getByLabel("Series", { exact: true }).selectOption({ label: SHOW });
    await page.getByRole("radio", { name: /^In order/ }).click();
    await kit.assertPressable(page.getByRole("radio", { name: /^In order/ }), "an order");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("cell", { name: "By rules" }).waitFor();
    const { items: [{ rule }], scheduleMode } = await findChannel("By rules");
    assert.deepEqual([rule.kind, rule.value, rule.and[0].kind, scheduleMode], ["genre", "Drama", "series", "sequential"]);
  });

  await step("channel-by-the-clock", async () => {
    await page.getByRole("row").filter({ hasText: "By rules" }).getByRole("link", { name: "Edit" }).click();
    await page.getByRole("radio", { name: /^By the clock/ }).click();
    const list = page.getByRole("group", { name: "List 1" });
    await list.getByLabel("Add a rule…").selectOption({ label: "Kind" });
    await list.getByLabel("Kind", { exact: true }).selectOption({ label: "Episodes" });
    await page.getByRole("button", { name: "Add a time" }).click();
    await page.getByLabel("From", { exact: true }).nth(1).fill("20:15");
    await page.getByText("Logo and watermark").click();
    await page.getByLabel(/^Logo/).fill("https://art.example/logo.png");
    await page.locator(".preview-list").getByText(/Slow Evenings/).first().waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("cell", { name: "By rules" }).waitFor();
    const { schedule, scheduleMode, logoUrl } = await findChannel("By rules");
    assert.deepEqual([scheduleMode, schedule.layers[0].blocks.map(({ at }) => at), schedule.sources["List 1"][0].rule.value, logoUrl],
      ["blocks", ["05:00", "20:15"], "episode", "https://art.example/logo.png"]);
    await page.getByRole("row").filter({ hasText: "By rules" }).getByRole("link", { name: "Edit" }).click();
    await page.getByLabel("From", { exact: true }).nth(1).waitFor();
    assert.equal(await page.getByLabel("From", { exact: true }).nth(1).inputValue(), "20:15");
    assert.deepEqual(await runAxe(page), []);
  });
}

async function televisionOnPhone(kit, server) {
  const { page, step } = kit;
  await step("television-guide", async () => {
    await kit.openScreen("guide");
    const row = page.locator(".now-row").filter({ hasText: "Evenings" }).first();
    await row.getByText(SHOW).first().waitFor();
    await kit.assertPressable(row.locator(".now-more"), "more of a channel");
    await row.locator(".now-more").click();
    const sheet = page.getByRole("dialog");
    await sheet.getByText(/The fire burns low/).waitFor();
    await kit.assertPressable(sheet.getByRole("link", { name: "Watch" }), "watch");
    await sheet.getByRole("button", { name: /Slow Evenings/ }).nth(1).click();
    await kit.screenshot("television-sheet");
    assert.deepEqual(await runAxe(page), []);
    await sheet.getByRole("button", { name: "Close" }).click();
    await page.getByLabel("Category").selectOption("Comedy");
    await waitUntil("one channel", async () => (await page.locator(".now-row").count()) === 1);
    await kit.assertNoSidewaysScroll();
    await kit.openScreen("guide");
    await row.getByText(SHOW).first().waitFor();
    await row.locator(".now-more").hover();
    await page.mouse.down();
    await page.getByLabel("Day", { exact: true }).selectOption({ index: 2 }); // The row changes during the press.
    await page.mouse.up();
    await sheet.getByRole("button", { name: "Close" }).click();
  });
  await step("television-make-a-channel", async () => {
    await kit.goToScreen(`library?${new URLSearchParams({ path: `${server.media}/Films` })}`);
    await page.getByRole("button", { name: "Make a channel" }).click();
    await kit.assertPressable(page.getByRole("dialog").getByRole("button", { name: "Create channel" }), "create");
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
    await kit.openScreen("settings?tab=channels&channel=new");
    await page.locator(".next-day").waitFor();
    await kit.assertNoSidewaysScroll();
  });
  await step("television-recordings", async () => {
    await kit.openScreen("recordings?tab=series");
    await page.locator(".recording.rule").filter({ hasText: SHOW }).waitFor();
    await kit.assertPressable(page.getByRole("button", { name: "Remove" }), "remove a series");
    await kit.assertNoSidewaysScroll();
  });
}

async function recordingsOnDesk(kit) {
  const { page, step } = kit;
  await step("television-series-rule", async () => {
    await kit.openScreen("guide");
    await page.locator("#menu").getByRole("link", { name: "Recordings" }).click();
    await page.getByRole("link", { name: /^Series \(1\)/ }).click();
    const rule = page.locator(".recording.rule").filter({ hasText: SHOW });
    await rule.getByText(/new episodes only · starts 2 min early · .*keeps the newest 5/).waitFor();
    await rule.getByRole("button", { name: "Edit" }).click();
    const dialog = page.getByRole("dialog", { name: "Edit series recording" });
    assert.equal(await dialog.getByLabel("Title as in the guide").inputValue(), SHOW);
    assert.ok(await dialog.getByLabel("Only new episodes").isChecked());
    await dialog.getByLabel("Only new episodes").uncheck();
    await dialog.getByLabel("End late").selectOption({ label: "10 minutes" });
    await dialog.getByLabel("Keep of the series").selectOption({ label: "The newest 3" });
    assert.deepEqual(await runAxe(page), []);
    await kit.screenshot("television-edit-series");
    await kit.assertPressable(dialog.getByRole("button", { name: "Save" }), "save");
    await dialog.getByRole("button", { name: "Save" }).click();
    await rule.getByText(/all episodes · starts 2 min early · ends 10 min late · keeps the newest 3/).waitFor();
    const { body: { series: [saved] } } = await kit.api("GET", "/api/livetv/recordings");
    assert.deepEqual([saved.title, saved.newOnly, saved.paddingSeconds, saved.keep.count], [SHOW, false, { before: 120, after: 600 }, 3]);
    await page.getByRole("button", { name: "Record a series" }).click();
    await page.getByLabel("Title as in the guide").fill("Another show");
    await page.getByRole("dialog").getByRole("button", { name: "Add" }).click();
    const other = page.locator(".recording.rule").filter({ hasText: "Another show" });
    await other.getByRole("button", { name: "Remove" }).click();
    await other.getByRole("button", { name: "Tap again to remove" }).click();
    await other.waitFor({ state: "detached" });
  });

  await step("television-conflict", async () => {
    const base = { channelId: 1, userId: "u", subtitle: null, season: null, episode: null, entryId: null, paddingSeconds: { before: 0, after: 0 }, failure: null, seriesId: null,
      keep: { count: null, days: null }, path: null, directUrl: null, sizeBytes: 0, recordedSeconds: 0, missingSeconds: 0, endedAt: null };
    const [start, end] = [new Date(Date.now() + 3_600_000).toISOString(), new Date(Date.now() + 7_200_000).toISOString()];
    let recordings = [
      { ...base, id: "rec_a", title: "First choice", channelName: "Evenings", state: "scheduled", conflicts: ["rec_b"], start, end },
      { ...base, id: "rec_b", title: "Second choice", channelName: "Laughter", state: "scheduled", conflicts: ["rec_a"], start, end },
      { ...base, id: "rec_c", title: "Done", channelName: "Laughter", state: "complete", conflicts: [], start, end, path: "/gone.ts", sizeBytes: 9_000_000, recordedSeconds: 1800 },
    ];
    await page.route("**/api/livetv/recordings", (route) => route.fulfill({ json: { enabled: true, recordings, series: [] } }));
    const deleted = [];
    await page.route("**/api/livetv/recordings/rec_*", (route) => {
      deleted.push(route.request().url().split("/").at(-1));
      recordings = [{ ...recordings[0], conflicts: [] }];
      return route.fulfill({ json: { id: "rec_b", deleted: false, state: "cancelled", fileDeleted: false } });
    });
    await kit.openScreen("recordings?tab=scheduled");
    await page.locator(".recording").filter({ hasText: "First choice" }).getByText("conflicts with Second choice").waitFor();
    const card = page.getByRole("region", { name: "Recording conflict" });
    assert.deepEqual(await runAxe(page), []);
    const line = card.getByRole("listitem").filter({ hasText: "Second choice" });
    await kit.assertPressable(line.getByRole("button", { name: "Cancel" }), "cancel one of two");
    await line.getByRole("button", { name: "Cancel" }).click();
    await line.getByRole("button", { name: "Tap again to cancel" }).click();
    await card.waitFor({ state: "detached" });
    recordings = [{ ...base, id: "rec_c", title: "Done", channelName: "Laughter", state: "complete", conflicts: [], start, end, path: "/gone.ts", sizeBytes: 9_000_000, recordedSeconds: 1800 }];
    await page.getByRole("link", { name: /^Recorded/ }).click();
    const done = page.locator(".recording").filter({ hasText: "Done" });
    await done.getByRole("button", { name: "Delete" }).click();
    await done.getByRole("button", { name: "Tap again to delete the file" }).click();
    await waitUntil("the file is deleted", () => deleted.includes("rec_c?file=delete"));
    assert.ok(deleted.includes("rec_b?file=keep"), deleted.join());
  });
}

/** Records what is on by one press, which the guide still shows after a reload, and cancels it by two. */
async function recordAtSizes(desk, openPage, show) {
  for (const [n, size] of Object.keys(SIZES).entries()) {
    assert.equal((await desk.api("POST", "/api/livetv/channels", { name: `Spare ${size}`, number: 11 + n, items: [show] })).status, 201);
  }
  await atSizes(desk, openPage, async (kit) => {
    const { page, step, size } = kit;
    const open = async () => {
      await kit.openScreen("guide");
      await page.getByLabel("Filter the guide").fill(`spare ${size}`);
      const more = page.locator(".now-row").filter({ hasText: `Spare ${size}` }).locator(".now-more");
      const cell = page.locator(".cell.on-air").filter({ hasText: `Spare ${size}` });
      await more.or(cell).first().waitFor();
      if (await more.count()) await kit.pressVisible(more, "more of the channel");
      else await cell.focus();
    };
    await step("record-by-one-press", async () => {
      const button = page.locator(".record").filter({ visible: true });
      const label = (texts) => waitUntil(`the button says ${texts}`, async () => texts.test(await button.first().textContent().catch(() => "")));
      await open();
      await label(/^Record$/);
      await kit.pressVisible(button.first(), "record");
      await label(/^(Scheduled|Recording)$/);
      await open();
      await label(/^(Scheduled|Recording)$/);
      await kit.screenshot("record-shown");
      await kit.pressVisible(button.first(), "cancel");
      await label(/^Tap again to cancel$/);
      await kit.pressLocator(button.first());
      await label(/^Record$/);
    });
  });
}
