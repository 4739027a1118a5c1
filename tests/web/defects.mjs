// What a household has met once: by key and wheel, on a phone alone, or without a screen. `defects-at-sizes` has what is pressed.

import assert from "node:assert/strict";
import { waitUntil } from "./program.mjs";

const MANY_FILES = 5000;
const PAGE_SIZE = 500;

/** Elements of a long list that may be in the DOM. */
const MAX_ENTRIES = 200;

export async function defects(kit, openPage) {
  const { page, server, step, press, waitUntilPlaying } = kit;
  const film = (name) => `${server.media}/Films/${name}`;

  await step("back-to-the-place-in-a-long-list", async () => {
    await page.route(/\/api\/library\?/, (route) => route.fulfill({ json: pageOfFiles(new URL(route.request().url())) }));
    await kit.goToScreen("library?path=/many");
    await page.getByRole("link", { name: /^File 0001/ }).waitFor();
    let most = 0;
    for (let n = 0; n < 12; n += 1) {
      await page.mouse.move(600, 500);
      await page.mouse.wheel(0, 3000);
      await page.waitForTimeout(60);
      most = Math.max(most, await page.locator(".entry").count());
    }
    await waitUntil("far down", () => page.evaluate(() => scrollY > 9000));
    const end = await page.evaluate(() => { scrollTo(0, document.body.scrollHeight); return scrollY; });
    await waitUntil("the next page", () => page.evaluate((end) => document.body.scrollHeight - innerHeight > end + 5000, end));
    assert.equal(await page.evaluate(() => scrollY), end, "the list grows below the entries in view");
    assert.ok(most <= MAX_ENTRIES, `${most} of ${MANY_FILES} entries in the DOM`);
    await assertBackLeadsToThePlace(kit, (entry) => entry.click());
  });

  await step("record-where-recording-is-off", async () => {
    const { body } = await kit.api("POST", "/api/livetv/channels", { name: "Unrecorded", number: 911, items: [{ path: film("Ember (2026).mp4") }] });
    await kit.goToScreen(`watch?channel=${body.channel.id}`);
    await waitUntilPlaying("video");
    await page.mouse.move(300, 300);
    await page.getByRole("button", { name: "Pause" }).waitFor({ state: "attached" });
    assert.equal(await page.getByRole("button", { name: "Record", exact: true }).count(), 0, "it is not offered");
    kit.assertClean();
  });

  await step("channel-left-before-it-is-loaded", async () => {
    const { body: { channels } } = await kit.api("GET", "/api/livetv/channels");
    await kit.goToScreen("library");
    // The viewer chooses another screen while the response is read: the address changes before the page receives either.
    await page.evaluate(() => {
      const { fetch } = window;
      window.fetch = async (...request) => {
        const response = await fetch(...request);
        if (!/\/livetv\/channels/.test(String(request[0]))) return response;
        window.fetch = fetch;
        const body = await response.json();
        response.json = async () => {
          location.hash = "#/settings?tab=account";
          return body;
        };
        return response;
      };
    });
    const before = kit.requests.length;
    await kit.goToScreen(`watch?channel=${channels[0].id}`);
    await page.getByLabel("New password").waitFor();
    assert.ok(page.url().endsWith("#/settings?tab=account"), page.url());
    assert.ok(!kit.requests.slice(before).some((line) => line.includes(`/watch/${channels[0].id}`)), "the channel is not tuned in");
    await kit.goToScreen(`watch?channel=${channels.find(({ number }) => number === 911).id}`);
    await waitUntilPlaying("video");
  });

  await step("live-like-television", async () => {
    const isPaused = () => page.evaluate(() => document.querySelector("video").paused);
    await press("k");
    await waitUntil("a key pauses", isPaused);
    await page.mouse.click(600, 300);
    await waitUntil("a click plays", async () => !(await isPaused()));
    await press("m");
    await waitUntil("muted", () => page.evaluate(() => document.querySelector("video").muted));
    await press("m");
    await press("f");
    await waitUntil("full screen", () => page.evaluate(() => document.fullscreenElement !== null));
    await press("f");
    const latency = () => page.evaluate(() => {
      const { seekable, currentTime } = document.querySelector("video");
      return seekable.length === 0 ? 0 : seekable.end(seekable.length - 1) - currentTime;
    });
    await waitUntil("enough is kept", () => page.evaluate(() => {
      const { seekable } = document.querySelector("video");
      return seekable.length > 0 && seekable.end(0) - seekable.start(0) > 22;
    }));
    const before = await latency();
    await page.mouse.move(500, 300);
    await press("j");
    await waitUntil("rewound", async () => (await latency()) > before + 5);
    await page.locator(".live-mark").filter({ hasText: /^−\d+:\d\d$/ }).waitFor({ state: "attached" });
    await kit.screenshot("live-rewound");
    await kit.pressOverlayButton("Go to live");
    await page.locator(".live-mark").filter({ hasText: /^Live$/ }).waitFor({ state: "attached" });
    await press("g");
    await page.locator(".panel-channels").getByText("911 Unrecorded").waitFor();
    await press("Escape", "Escape");
  });

  await step("guide-shows-what-is-recorded", async () => {
    const { body: { channels } } = await kit.api("GET", "/api/livetv/channels");
    const { id } = channels.find(({ number }) => number === 911);
    const [from, to] = [Date.now() + 600_000, Date.now() + 1_200_000].map((instant) => new Date(instant).toISOString());
    const { body: { entries } } = await kit.api("GET", `/api/livetv/epg?${new URLSearchParams({ channelIds: id, from, to })}`);
    const recording = { id: "r1", channelId: id, entryId: entries[1].id, state: "scheduled", conflicts: [] };
    await page.route("**/api/livetv/recordings", (route) => route.fulfill({ json: { enabled: true, recordings: [recording], series: [] } }));
    await kit.goToScreen("guide");
    const marked = page.locator(".cell").filter({ has: page.getByRole("img", { name: "Recorded" }) });
    await marked.first().waitFor();
    assert.equal(await marked.count(), 1, "only this one");
    await page.unroute("**/api/livetv/recordings");
    const texts = await page.evaluate(async (recording) => {
      const { recordButton } = await import(new URL("web/record-button.js", document.baseURI));
      const button = recordButton(recording.channelId, { id: recording.entryId }, recording).querySelector("button");
      const before = button.textContent;
      button.click();
      return [before, button.textContent];
    }, recording);
    assert.deepEqual(texts, ["Scheduled", "Tap again to cancel"], "a second press does not record twice");
  });

  const storageState = await page.context().storageState();
  const phone = await openPage("phone-", { width: 390, height: 844 }, server, storageState, true);
  await phone.step("tables-on-a-phone", async () => {
    for (const [tab, names] of [["channels", ["Edit", "Remove"]], ["devices", ["Remove"]]]) {
      await phone.openScreen(`settings?tab=${tab}`);
      for (const name of names) {
        const control = phone.page.locator("td").getByText(name, { exact: true }).first();
        if (tab === "devices" && (await control.count()) === 0) continue;
        await control.waitFor();
        await phone.assertPressable(control, `${name} of ${tab}`);
      }
      await phone.assertNoSidewaysScroll();
    }
    assert.equal(await phone.page.evaluate(() => document.activeElement.tagName), "BODY", "no focus ring under a finger");
  });
  await phone.step("guide-on-a-phone", async () => {
    await phone.openScreen("guide");
    await phone.page.locator(".now-row .progress").first().waitFor();
    assert.equal(await phone.page.locator(".cell").count(), 0, "a list of what is on, not a grid that begins in the past");
    await phone.assertPressable(phone.page.locator(".now-watch").first(), "what is on");
    await phone.assertPressable(phone.page.locator(".now-more").first(), "more of a channel");
  });
  phone.assertClean();
  await phone.page.context().close();

  await step("words", async () => {
    const texts = await page.evaluate(async () => {
      const load = (name) => import(new URL(`web/${name}.js`, document.baseURI));
      const [{ formatLength }, { describeDecision }, { errorText }, { isNextPart }] = await Promise.all(["format", "decision", "strings", "next-part"].map(load));
      const decision = { streams: [{ kind: "video", index: 0, action: "encode", reasons: ["VIDEO_RESOLUTION_NOT_SUPPORTED"] }] };
      const parts = [["Show S01E01.mkv", "Show S01E02.mkv"], ["Show S01E09.mkv", "Show S01E10.mkv"], ["Show S01E02.mkv", "Show S01E01.mkv"],
        ["Ember (2026).mp4", "Night Train (2026).mkv"], ["Alien.mkv", "Brazil.mkv"], ["01 Intro.mp3", "02 First.mp3"]];
      return {
        lengths: [18, 59, 61, 5400].map(formatLength),
        decision: describeDecision(decision, null, true),
        errors: [
          { code: "CONFLICT", message: "number 1 is used by Comedy" }, { code: "CONFLICT", message: 'the name "ben" is already in use' },
          { code: "VALIDATION_ERROR", message: "items: must be 1 to 5000", details: { fields: [{ field: "items" }] } },
          { code: "SOMETHING_NEW", message: "queue overrun in stage 3" },
        ].map(errorText),
        parts: parts.map(([name, other]) => isNextPart(name, other)),
      };
    });
    assert.deepEqual(texts.lengths, ["18 s", "59 s", "1 min", "1 h 30 min"]);
    assert.equal(texts.decision, "Converting video (you chose a lower quality)");
    assert.deepEqual(texts.errors, ["Channel 1 is already “Comedy”.", "That name is already in use.", "Choose at least one folder or file.",
      "Something went wrong. Try again in a moment."], "never a raw sentence of the server");
    assert.deepEqual(texts.parts, [true, true, false, false, false, true]);
  });
}

/** Opens an entry of a long list by `press`, goes back, and asserts that the list is where it was; then leaves the mocked list. */
export async function assertBackLeadsToThePlace({ page, goToScreen, faults }, press) {
  const entries = page.locator(".details-link").filter({ visible: true });
  let before = -1;
  await waitUntil("scrolling has ended", async () => (await entries.count()) > 3 && before === (before = await page.evaluate(() => scrollY)));
  assert.ok(before > 5000, `scrolled to ${before}`);
  const address = await entries.evaluateAll((all) => all.find((link) => link.getBoundingClientRect().top > 120).getAttribute("href"));
  await press(page.locator(`.details-link[href="${address}"]`));
  await page.getByRole("alert").waitFor(); // There is no such file.
  await page.goBack();
  await waitUntil("the same place", () => page.evaluate((before) => scrollY === before, before));
  await page.locator(".entry").first().waitFor();
  await goToScreen("settings"); // A last request of the list would be refused.
  await page.unroute(/\/api\/library\?/);
  faults.length = 0;
}

/** A page of a folder with many files. */
export function pageOfFiles({ searchParams }) {
  const from = Number(searchParams.get("cursor") ?? 0);
  const entries = Array.from({ length: Math.min(PAGE_SIZE, MANY_FILES - from) }, (_, n) => {
    const name = `File ${String(from + n + 1).padStart(4, "0")}.mp4`;
    return { name, path: `/many/${name}`, kind: "media", mediaKind: "video", sizeBytes: 1_000_000 };
  });
  return { path: "/many", parent: null, entries, nextCursor: from + PAGE_SIZE < MANY_FILES ? String(from + PAGE_SIZE) : null };
}
