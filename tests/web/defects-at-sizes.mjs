// What a household has met once, pressed at all four sizes.

import assert from "node:assert/strict";
import { assertBackLeadsToThePlace, pageOfFiles } from "./defects.mjs";
import { waitUntil } from "./program.mjs";
import { atSizes, isInWindow } from "./sizes.mjs";

const NUMBER = 912;

export async function defectsAtSizes(kit, openPage) {
  const film = (name) => `${kit.server.media}/Films/${name}`;
  const { status, body } = await kit.api("POST", "/api/livetv/channels", { name: "Everywhere", number: NUMBER, items: [{ path: film("Ember (2026).mp4") }] });
  assert.equal(status, 201);
  await atSizes(kit, openPage, async (sized) => {
    await serverAway(sized, film);
    await fileGone(sized, film);
    await unrelatedFilms(sized, film);
    await busyServer(sized, film);
    await live(sized, body.channel.id);
    await screens(sized);
    await longList(sized);
  });
  await viewer(kit, openPage);
  assert.equal((await kit.api("DELETE", `/api/livetv/channels/${body.channel.id}`)).status, 200);
}

const play = (path, at) => `play?${new URLSearchParams({ path, at: String(at) })}`;
const isPaused = ({ page }) => page.evaluate(() => document.querySelector("video").paused);

/** The message goes when the server is back, and the controls are free again. */
async function serverAway(kit, film) {
  const { page, step, position, waitUntilPlaying } = kit;
  await step("defect-server-away", async () => {
    await kit.openScreen(play(film("Night Train (2026).mkv"), 5));
    await waitUntilPlaying("video", 5);
    kit.assertClean(); // The next requests fail on purpose.
    await page.route("**/api/**", (route) => route.abort());
    await kit.seek("video", 50); // Not loaded yet.
    const alert = page.getByRole("alert").filter({ hasText: "Trying again…" });
    await alert.waitFor();
    assert.ok(await isInWindow(alert), "the message is in the window");
    await page.unroute("**/api/**");
    await waitUntil("it continues where it was", async () => (await position("video")) > 50.5);
    assert.ok(!(await page.getByRole("alert").first().isVisible()), "the message is gone");
    await kit.pressControl("Pause", () => isPaused(kit));
    kit.faults.length = 0;
  });
}

async function fileGone(kit, film) {
  const { page, step, faults } = kit;
  await step("defect-file-gone", async () => {
    // A file that plays directly, and is deleted before its first byte is read.
    const gone = { status: 404, json: { error: "no such file", code: "NOT_FOUND", requestId: "-" } };
    const reads = [/\/api\/stream\/file\?/, /\/api\/stream\/transcode\/start/];
    for (const read of reads) await page.route(read, (route) => route.fulfill(gone));
    await kit.openScreen(play(film("Ember (2026).mp4"), 1));
    const alert = page.getByRole("alert").filter({ hasText: /^(This is no longer available|This file can’t be read any more)\.$/ });
    await alert.waitFor();
    assert.ok(await isInWindow(alert), "the message is in the window");
    await kit.pressVisible(page.locator(".overlay.top a").first(), "the way back");
    await page.locator("#menu").waitFor();
    for (const read of reads) await page.unroute(read);
    await kit.goToScreen(`library?${new URLSearchParams({ path: `${kit.server.media}/Nowhere` })}`);
    await page.getByRole("alert").filter({ hasText: "This folder is missing." }).waitFor();
    await kit.pressVisible(page.getByRole("button", { name: "Try again" }), "try again");
    await page.getByRole("alert").filter({ hasText: "This folder is missing." }).waitFor();
    await kit.pressVisible(page.getByRole("link", { name: "Go to home" }), "the way home");
    await page.locator(".tile, .card").first().waitFor();
    faults.length = 0;
  });
}

async function unrelatedFilms(kit, film) {
  await kit.step("defect-film-alone", async () => {
    await kit.openScreen(play(film("Ember (2026).mp4"), 46));
    await kit.waitUntilPlaying("video", 46);
    assert.equal(await kit.page.locator(".suggestion button").count(), 0, "unrelated films of a folder do not follow each other");
  });
}

async function busyServer(kit, film) {
  await kit.step("defect-busy-server", async () => {
    const refusal = { error: "all encode slots are in use", code: "TRANSCODER_BUSY", details: { active: 1, max: 1 }, requestId: "-" };
    await kit.page.route("**/api/stream/transcode/start", (route) => route.fulfill({ status: 503, headers: { "retry-after": "1" }, json: refusal }));
    await kit.openScreen(play(film("Night Train (2026).mkv"), 5));
    const text = kit.page.getByText("Yours starts when they finish");
    await text.waitFor();
    assert.ok(await isInWindow(text), "it says who is first");
    await kit.page.unroute("**/api/stream/transcode/start");
  });
}

async function live(kit, channel) {
  const { page, step } = kit;
  await step("defect-live", async () => {
    await kit.openScreen(`watch?channel=${channel}`);
    await kit.waitUntilPlaying("video");
    await kit.pressControl("Pause", () => isPaused(kit));
    await kit.pressControl("Play", async () => !(await isPaused(kit)));
    const isMuted = () => page.evaluate(() => document.querySelector("video").muted);
    if (!kit.isTouch) {
      await kit.pressControl("Mute", isMuted);
      await kit.pressControl("Unmute", async () => !(await isMuted()));
    }
    await kit.pressControl("Full screen", () => page.evaluate(() => document.fullscreenElement !== null));
    await page.evaluate(() => document.exitFullscreen());
    const latency = () => page.evaluate(() => {
      const { seekable, currentTime } = document.querySelector("video");
      return seekable.length === 0 ? 0 : seekable.end(seekable.length - 1) - currentTime;
    });
    await waitUntil("enough is kept", () => page.evaluate(() => {
      const { seekable } = document.querySelector("video");
      return seekable.length > 0 && seekable.end(0) - seekable.start(0) > 22;
    }));
    const before = await latency();
    const mark = page.locator(".live-mark").filter({ hasText: /^−\d+:\d\d$/ });
    // On a busy machine the latency grows for a moment without a press, so it alone does not show that the button was pressed.
    await kit.pressControl("Back 10 s", async () => (await mark.count()) > 0 && (await latency()) > before + 5);
    await kit.pressControl("Go to live", async () => (await mark.count()) === 0);
    const list = page.locator(".panel-channels").getByText(`${NUMBER} Everywhere`);
    await kit.pressControl("Channels", () => list.isVisible());
    await kit.assertPressable(list, "a channel of the list");
    await page.keyboard.press("Escape");
  });
}

/** Search, audiobook, tables, guide, and a refused password. */
async function screens(kit) {
  const { page, step, server } = kit;
  await step("defect-search", async () => {
    await kit.openScreen("");
    await page.locator(".tile").first().waitFor();
    await page.getByRole("searchbox").fill("tides");
    await kit.pressVisible(page.locator(".tile").filter({ hasText: "Tides" }).filter({ visible: true }).first(), "a result");
    await page.getByRole("heading", { name: "Tides" }).first().waitFor();
  });
  await step("defect-audiobook", async () => {
    await kit.goToScreen(`file?${new URLSearchParams({ path: `${server.media}/Audiobooks/By the Fire.m4b` })}`);
    assert.equal(await page.locator("a[href^='#/play']").count(), 0, "it has one player and one position");
    await kit.pressVisible(page.getByRole("link", { name: "Listen" }), "listen");
    await waitUntil("the book is opened", () => /#\/book\?/.test(page.url()));
    await kit.waitUntilPlaying("audio");
    await kit.pressVisible(page.getByRole("button", { name: "Pause" }).filter({ visible: true }).first(), "pause");
    await waitUntil("paused", () => page.evaluate(() => document.querySelector("audio").paused));
  });
  await step("defect-tables", async () => {
    await kit.openScreen("settings?tab=channels");
    const row = page.getByRole("row").filter({ hasText: "Everywhere" });
    await row.waitFor();
    await row.evaluate((element) => element.scrollIntoView({ block: "center" }));
    for (const name of ["Edit", "Remove"]) await kit.assertPressable(row.getByText(name, { exact: true }), name);
    await kit.assertNoSidewaysScroll();
    await kit.pressVisible(row.getByText("Edit", { exact: true }), "edit");
    await waitUntil("the channel is edited", async () => (await page.getByLabel("Name", { exact: true }).inputValue()) === "Everywhere");
  });
  await step("defect-guide", async () => {
    await kit.goToScreen("guide");
    await kit.pressVisible(page.locator(".now-more, .cell.on-air").filter({ visible: true }).first(), "what is on now");
    const sheet = page.getByRole("dialog");
    await waitUntil("it is played, or described on a phone", async () => /#\/watch/.test(page.url()) || (await sheet.isVisible()));
    if (await sheet.isVisible()) {
      await page.keyboard.press("Escape");
      await sheet.waitFor({ state: "hidden" });
    }
  });
  await step("defect-wrong-password", async () => {
    const refusal = { status: 401, json: { error: "name or password is wrong", code: "INVALID_CREDENTIALS", requestId: "-" } };
    await page.route("**/api/auth/password", (route) => route.fulfill(refusal));
    await kit.openScreen("settings?tab=account");
    const form = page.locator("form").filter({ has: page.getByLabel("New password") });
    await form.getByLabel("Current password").fill("not the password");
    await form.getByLabel("New password").first().fill("another long evening");
    kit.assertClean(); // The next request is refused on purpose.
    await kit.pressVisible(form.getByRole("button"), "change the password");
    const alert = page.getByRole("alert").filter({ hasText: "Your current password isn’t right." });
    await alert.waitFor();
    assert.ok(await isInWindow(alert), "the message is in the window");
    await page.unroute("**/api/auth/password");
    kit.faults.length = 0;
  });
}

async function longList(kit) {
  const { page, step } = kit;
  await step("defect-place-in-a-long-list", async () => {
    await page.route(/\/api\/library\?/, (route) => route.fulfill({ json: pageOfFiles(new URL(route.request().url())) }));
    await kit.goToScreen("library?path=/many");
    await page.getByRole("link", { name: /^File 0001/ }).waitFor();
    await page.evaluate(() => scrollTo(0, 9000));
    await assertBackLeadsToThePlace(kit, (entry) => kit.pressVisible(entry, "an entry far down"));
  });
}

/** The settings and recordings of a viewer, who may not record, at the four sizes. */
async function viewer(kit, openPage) {
  const [name, password] = ["nora", "another long evening"];
  assert.equal((await kit.api("POST", "/api/users", { username: name, password })).status, 201);
  const guest = await openPage("");
  await guest.signIn(name, password);
  await atSizes({ server: kit.server, page: guest.page }, openPage, async (sized) => {
    await sized.step("defect-viewer", async () => {
      await sized.openScreen("settings");
      await sized.pressVisible(sized.page.getByLabel("Theme"), "the first of the preferences");
      await sized.goToScreen("recordings");
      await sized.page.getByRole("heading", { name: "Recordings" }).waitFor();
      assert.doesNotMatch(await sized.page.locator("main").textContent(), /press record|Record programmes/i, "a viewer cannot record");
    });
  });
  await guest.page.context().close();
}
