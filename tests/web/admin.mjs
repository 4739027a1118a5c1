// The settings of an admin: now playing, server, log, pipelines, stream tokens, external channels and recordings.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NAME, PASSWORD } from "./kit.mjs";
import { waitUntil } from "./program.mjs";

const jsqr = createRequire(import.meta.url)("jsqr");

export async function admin(kit, openPage) {
  const { page, server, requests, step, press } = kit;
  const film = (name) => `${server.media}/Films/${name}`;

  await step("admin-playing", async () => {
    const options = { mediaPath: film("Night Train (2026).mkv"), profile: { resolution: "240p" } };
    const started = await waitUntil("an encode slot", async () => {
      const response = await kit.api("POST", "/api/stream/transcode/start", options);
      return response.status === 200 && response.body;
    });
    await kit.openScreen("settings?tab=playing");
    // A channel that shows the film has no button.
    const row = page.getByRole("row").filter({ hasText: "Night Train" }).filter({ has: page.getByRole("button") });
    await row.getByText(NAME, { exact: true }).waitFor();
    await row.getByText(/\d+×\d+/).waitFor();
    const session = `**/api/stream/transcode/${started.sessionId}`;
    await page.route(session, (route) =>
      route.fulfill({ status: 503, json: { error: "the disk does not answer", code: "STORAGE_TIMEOUT", requestId: "-" } }));
    await row.getByRole("button", { name: "Stop" }).click();
    await row.getByRole("button", { name: "Tap again to stop" }).click();
    await page.getByRole("alert").waitFor();
    const countRefreshes = () => requests.filter((line) => line.endsWith("/api/stream/transcode/sessions")).length;
    const before = countRefreshes();
    await waitUntil("the list is refreshed", () => countRefreshes() >= before + 2);
    assert.ok(await page.getByRole("alert").isVisible(), "the error of a failed stop stays");
    await page.unroute(session);
    await row.getByRole("button", { name: "Stop", exact: true }).waitFor();
    await row.getByRole("button", { name: "Stop" }).focus();
    await press("Enter");
    assert.equal((await kit.getFocused()).text, "Tap again to stop");
    await press("Enter");
    await row.waitFor({ state: "detached" });
    const { body } = await kit.api("GET", `/api/stream/transcode/${started.sessionId}/status`);
    assert.equal(body.state, "stopped");
  });

  await step("admin-server", async () => {
    await kit.openScreen("settings?tab=server");
    await page.getByText(/^\d+ ms$/).waitFor();
    await page.getByText("Graphics card", { exact: true }).waitFor();
    await page.getByText("Technical details").click();
    await page.getByText(/^\d+ ready, \d+ busy/).waitFor();
    await page.getByText("No files in quarantine.").waitFor();
  });

  await step("admin-graphs", async () => {
    await kit.openScreen("settings?tab=graphs");
    const graph = (title) => page.locator(".graph").filter({ has: page.getByText(title, { exact: true }) });
    const sessionCount = async () => (await kit.api("GET", "/api/stream/transcode/sessions")).body.sessions.length;
    const shownSessions = async () => Number(await graph("Streams").locator("p").textContent());
    const sentLine = graph("Sent").locator("path");
    const sent = await waitUntil("there are samples", () => sentLine.getAttribute("d"));
    const before = await sessionCount();
    const options = { mediaPath: film("Night Train (2026).mkv"), profile: { resolution: "240p" } };
    const started = await waitUntil("an encode slot", async () => {
      const response = await kit.api("POST", "/api/stream/transcode/start", options);
      return response.status === 200 && response.body;
    });
    await waitUntil("the stream is counted", async () => (await shownSessions()) >= 1 && (await shownSessions()) === (await sessionCount()));
    await kit.api("DELETE", `/api/stream/transcode/${started.sessionId}`);
    await waitUntil("its end is counted", async () => (await shownSessions()) <= before);
    assert.notEqual(await sentLine.getAttribute("d"), sent, "the line continues");
    await graph("Memory").getByText(/^\d.* MB$/).first().waitFor();
    await graph("Workers").getByText(/^Ready \d+$/).waitFor();
  });

  await mediaFolders(kit);
  await setUpWithoutFolders(server, openPage);

  await step("admin-quarantine", async () => {
    const entry = { id: "0123", path: film("Ember (2026).mp4"), fingerprint: "f_1", stage: "run", pipeline: "segment", cause: "SIGSEGV in queue0:src",
      version: "-", at: new Date().toISOString(), expiresAt: new Date().toISOString() };
    let entries = [entry];
    await page.route("**/api/quarantine", (route) => route.fulfill({ json: { entries } }));
    await page.route("**/api/quarantine/0123", (route) => {
      entries = [];
      return route.fulfill({ status: 204 });
    });
    await kit.openScreen("settings?tab=server");
    const row = page.getByRole("row").filter({ hasText: "Ember" });
    await row.getByText("SIGSEGV in queue0:src").waitFor();
    await row.getByRole("button", { name: "Try again" }).click();
    await row.getByRole("button", { name: "Tap again to try" }).click();
    await row.waitFor({ state: "detached" });
    await page.unroute("**/api/quarantine");
    await page.unroute("**/api/quarantine/0123");
  });

  await step("admin-log", async () => {
    await kit.openScreen("settings?tab=log");
    await page.locator(".log li").first().waitFor();
    // A line logged while the tab is open. Another client causes it because a browser would report the 401 as a page error.
    const response = await fetch(`${server.base}/api/auth/me`);
    await page.getByText(response.headers.get("x-request-id")).first().waitFor();
  });
  await step("admin-log-errors", async () => {
    await page.getByLabel("Level").selectOption({ label: "Errors only" });
    await waitUntil("other levels are hidden", async () => (await page.locator(".log li.info:visible").count()) === 0);
  });

  await step("admin-no-pipelines", async () => {
    await kit.openScreen("settings?tab=pipelines");
    await page.getByText(/No active pipelines/).or(page.locator(".drawing svg")).first().waitFor(); // Those of the steps before end after a minute.
  });

  await step("admin-players", async () => {
    const { status } = await kit.api("POST", "/api/livetv/channels", { name: "For players", number: 701, items: [{ path: film("Ember (2026).mp4") }] });
    assert.equal(status, 201);
    await kit.openScreen("settings?tab=tokens");
    await page.getByLabel("Device name").fill("Kodi in the attic");
    await page.getByRole("button", { name: "Add" }).click();
    const links = {};
    for (const label of ["Playlist (M3U)", "Guide (XMLTV)"]) {
      links[label] = await page.getByLabel(label, { exact: true }).inputValue();
      assert.equal(await readQrCode(page.getByLabel(`${label} as a QR code`)), links[label], "the QR code contains the link");
    }
    const m3u = execFileSync("curl", ["-sf", links["Playlist (M3U)"]], { encoding: "utf8" });
    assert.ok(m3u.startsWith("#EXTM3U") && m3u.includes("For players"), m3u);
    // It has several megabytes: plain searches only.
    const guide = execFileSync("curl", ["-sf", links["Guide (XMLTV)"]], { encoding: "utf8", maxBuffer: 512e6 });
    for (const part of ["<tv ", "<programme ", ">Ember</title>"]) assert.ok(guide.includes(part), `${part} in ${guide.length} characters`);
    const channel = m3u.split("\n").find((line, n, all) => all[n - 1]?.includes("For players"));
    const played = execFileSync("ffmpeg", ["-nostdin", "-v", "error", "-i", channel, "-t", "2", "-map", "0:v", "-f", "framemd5", "-"], { encoding: "utf8", timeout: 60_000 });
    assert.ok(played.split("\n").filter((line) => /^0,/.test(line)).length > 20, "ffmpeg plays the channel of the playlist");
  });

  await step("admin-player-revoked", async () => {
    const link = await page.getByLabel("Playlist (M3U)", { exact: true }).inputValue();
    await kit.openScreen("settings?tab=tokens");
    assert.equal(await page.locator(".qr").count(), 0, "a secret is shown once");
    await page.getByRole("row").filter({ hasText: "Kodi" }).getByRole("button", { name: "Remove" }).click();
    await page.getByRole("button", { name: "Tap again to remove" }).click();
    await waitUntil("the token is gone", async () => (await page.getByRole("row").filter({ hasText: "Kodi" }).count()) === 0);
    assert.equal((await fetch(link)).status, 401);
  });

  await step("admin-source", async () => {
    await kit.openScreen("settings?tab=sources");
    await page.getByText("No entries yet.").waitFor();
    const form = page.locator("form").filter({ hasText: "Stream address" });
    await form.getByLabel("Name", { exact: true }).fill("Harbour camera");
    await form.getByLabel("Stream address").fill("https://camera.example/live.m3u8?key=secret-of-the-camera");
    await form.getByLabel("Provider", { exact: true }).fill("Our own camera");
    await form.getByLabel("Link to terms").fill("https://camera.example/terms");
    await form.getByLabel("Describe your permission").fill("The camera and its pictures are ours.");
    await form.getByLabel("I am authorised").check();
    await form.getByRole("button", { name: "Add" }).click();
    const row = page.getByRole("row").filter({ hasText: "Harbour camera" }).filter({ hasText: "Our own camera" });
    await row.getByText(/own content: The camera/).waitFor();
    assert.ok(!(await page.content()).includes("secret-of-the-camera"), "an address is shown without its secrets");
    await page.getByRole("row").filter({ hasText: "permission confirmed" }).waitFor();
  });

  await step("admin-source-withdrawn", async () => {
    const row = page.getByRole("row").filter({ hasText: "Harbour camera" }).filter({ hasText: "Our own camera" });
    await row.getByRole("button", { name: "Withdraw" }).click();
    await row.getByRole("button", { name: "Tap again to withdraw" }).click();
    await row.getByText(/withdrawn by ada/).waitFor();
    await page.getByRole("row").filter({ hasText: "permission withdrawn" }).waitFor();
    await row.getByRole("button", { name: "Remove" }).click();
    await row.getByRole("button", { name: "Tap again to remove" }).click();
    await row.waitFor({ state: "detached" });
    await page.getByRole("row").filter({ hasText: "permission withdrawn" }).waitFor();
  });

  await step("admin-import", async () => {
    await kit.openScreen("settings?tab=sources");
    await page.getByText("Import a playlist or guide").click();
    const form = page.locator("form").filter({ hasText: "Refresh every (hours)" });
    await form.getByLabel("Name", { exact: true }).fill("The town's cameras");
    await form.getByLabel("or upload a file").setInputFiles({ name: "town.m3u", mimeType: "audio/x-mpegurl", buffer: Buffer.from(
      "#EXTM3U\n#EXTINF:-1 tvg-id=\"square\" group-title=\"Town\",The Square\nhttps://camera.example/square.m3u8\n#EXTINF:-1,Not a stream\nudp://@239.0.0.1:1234\n") });
    await form.getByLabel("Provider", { exact: true }).fill("The town");
    await form.getByLabel("Link to terms").fill("https://town.example/terms");
    await form.getByLabel("Describe your permission").fill("The town lets everybody show its cameras.");
    await form.getByLabel("I am authorised").check();
    await form.getByRole("button", { name: "Preview" }).click();
    await form.getByRole("cell", { name: "The Square" }).waitFor();
    await form.getByRole("cell", { name: "Not a stream", exact: true }).waitFor();
    await form.getByRole("button", { name: "Import" }).click();
    const row = page.getByRole("row").filter({ hasText: "The town's cameras" }).filter({ hasText: "1 channel," });
    await row.getByRole("button", { name: "Withdraw" }).click();
    await row.getByRole("button", { name: "Tap again to withdraw" }).click();
    await row.getByText("withdrawn").waitFor();
    await row.getByRole("button", { name: "Remove" }).click();
    await row.getByRole("button", { name: "Tap again to remove" }).click();
    await row.waitFor({ state: "detached" });
  });

  await step("admin-recordings", async () => {
    const { body } = await kit.api("GET", "/api/livetv/recordings");
    assert.deepEqual([body.enabled, body.recordings], [false, []]);
    await kit.openScreen("recordings");
    await page.getByText("Recording is off: no recordings folder is set.").waitFor();
    assert.ok(await page.locator("#menu [href='#/recordings']").isHidden(), "it is not in the menu where recording is off");
  });

  // A server with the GStreamer backend, and a film whose codecs and container it decodes itself.
  const mpeg2Film = server.makeMedia("Other/Mpeg2.mkv", ["-f", "lavfi", "-i", "testsrc=s=320x180:r=25:d=60", "-f", "lavfi", "-i",
    "sine=440:d=60", "-c:v", "mpeg2video", "-q:v", "4", "-g", "25", "-c:a", "ac3"]);
  // The page is below a path, as behind a proxy.
  const gstreamerServer = await server.startSecond(["--backend", "gstreamer"],
    { HEARTHCAST_RECORDINGS: `${server.media}-recorded`, HEARTHCAST_PUBLIC_BASE_URL: "https://home.example/tv" });
  try {
    const other = await openPage("", undefined, gstreamerServer);
    await other.signIn();
    await other.step("admin-pipelines", async () => {
      const started = await other.api("POST", "/api/stream/transcode/start", { mediaPath: mpeg2Film });
      assert.equal(started.status, 200);
      await other.openScreen("settings?tab=pipelines");
      await other.page.locator(".drawing rect").first().waitFor();
      assert.ok((await other.page.locator(".drawing .link").count()) > 0, "elements must be linked");
      await other.page.locator(".drawing text").filter({ hasText: /uridecodebin3|appsink|appsrc/ }).first().waitFor();
    });
    await other.step("record-from-the-guide", async () => {
      const created = await other.api("POST", "/api/livetv/channels", { name: "Evenings", number: 1, items: [{ path: film("Ember (2026).mp4") }] });
      assert.equal(created.status, 201);
      await other.openScreen(`watch?channel=${created.body.channel.id}`);
      await other.waitUntilPlaying("video");
      await other.pressOverlayButton("Record");
      await other.page.getByRole("button", { name: /^(Recording|Scheduled|Completed|\d+ conflicts?)$/ }).waitFor();
    });
    await other.step("record-listed", async () => {
      await other.openScreen("recordings");
      const row = other.page.locator(".recording").filter({ hasText: "Evenings" });
      await row.getByText(/Recording|Scheduled|Completed/).waitFor();
      const cancelButton = row.getByRole("button", { name: "Cancel" });
      if (await cancelButton.count()) {
        await cancelButton.click();
        await row.getByRole("button", { name: "Tap again to cancel" }).click();
      }
      // A recording that has not begun is deleted at once.
      await waitUntil("it is cancelled", async () => (await row.count()) === 0 || /Cancelled|Completed/.test(await row.first().textContent({ timeout: 5000 }).catch(() => "")));
    });
    await other.step("recordings-polled-once", () => assertOnePoll(other));
    other.assertClean();
    await other.page.close();
  } finally {
    assert.equal(await gstreamerServer.stop(), 0);
  }
}

/** Asserts that the recordings are polled by one loop: after a redraw, after another visit, and not while the page is hidden. */
async function assertOnePoll({ page, api, openScreen, requests }) {
  const { body } = await api("GET", "/api/livetv/channels");
  const { status } = await api("POST", "/api/livetv/recordings", { channelId: body.channels[0].id, series: { title: "Never on" } });
  assert.equal(status, 201);
  await page.addInitScript(() => {
    const { setTimeout } = window;
    window.setTimeout = (work, ms, ...rest) => setTimeout(work, ms === 5000 ? 100 : ms, ...rest);
  });
  const heldRequests = []; // At most one of each loop, because a loop waits for its response.
  let isHolding = false;
  await page.route("**/api/livetv/recordings", (route) => (isHolding ? heldRequests.push(route) : route.continue()));
  const releaseRequests = async () => {
    isHolding = false;
    for (const route of heldRequests.splice(0)) await route.continue().catch(() => {}); // The page may have aborted it.
  };
  const countLoops = async () => {
    isHolding = true;
    await waitUntil("the recordings are polled", () => heldRequests.length > 0);
    await page.waitForTimeout(400);
    return heldRequests.length;
  };

  await openScreen("recordings?tab=series");
  const rule = page.locator(".recording").filter({ hasText: "Never on" });
  await rule.getByRole("button", { name: "Remove" }).click();
  await rule.getByRole("button", { name: "Tap again to remove" }).click();
  await rule.waitFor({ state: "detached" });
  assert.equal(await countLoops(), 1, "a redraw must replace the loop");

  await page.getByRole("link", { name: "Settings" }).click();
  await page.locator(".tab").waitFor();
  await releaseRequests();
  const countRequests = () => requests.filter((line) => /^GET .*\/api\/livetv\/recordings$/.test(line)).length;
  const whenLeft = countRequests();
  await page.waitForTimeout(400);
  assert.equal(countRequests(), whenLeft, "a screen that was left must not be polled");
  await page.getByRole("link", { name: "Recordings" }).click();
  await page.getByRole("heading", { name: "Recordings" }).waitFor();
  assert.equal(await countLoops(), 1, "another visit must not add a loop");
  await releaseRequests();

  const setHidden = (isHidden) => page.evaluate((isHidden) => {
    Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
  await setHidden(true);
  await page.waitForTimeout(400); // A request may be under way.
  const whenHidden = countRequests();
  await page.waitForTimeout(400);
  assert.equal(countRequests(), whenHidden, "a hidden page must not poll");
  await setHidden(false);
  await waitUntil("a visible page polls again", () => countRequests() > whenHidden);
}

/** The text of a QR code on the page. */
async function readQrCode(code) {
  const { dots: pixelsText, side } = await code.evaluate(async (svg) => {
    const image = new Image();
    const copy = svg.cloneNode(true);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.querySelector("rect").setAttribute("fill", getComputedStyle(svg.querySelector("rect")).fill);
    copy.querySelector("path").setAttribute("fill", getComputedStyle(svg.querySelector("path")).fill);
    const side = 480;
    for (const size of ["width", "height"]) copy.setAttribute(size, side);
    image.src = URL.createObjectURL(new Blob([copy.outerHTML], { type: "image/svg+xml" }));
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [side, side];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0, side, side);
    const { data } = context.getImageData(0, 0, side, side);
    // Arrays leave the page number by number, which is slow, so each pixel is a character.
    return { dots: Array.from({ length: side * side }, (_, n) => (data[4 * n] < 128 ? "#" : " ")).join(""), side };
  });
  const pixels = Uint8ClampedArray.from({ length: 4 * side * side }, (_, n) => (n % 4 === 3 || pixelsText[n >> 2] === " " ? 255 : 0));
  return jsqr(pixels, side, side)?.data;
}

/** A folder outside the library with one film in it. */
function makeAttic({ media }) {
  const folder = mkdtempSync(join(tmpdir(), "hearthcast-attic-"));
  mkdirSync(join(folder, "Films"));
  copyFileSync(`${media}/Films/Ember (2026).mp4`, join(folder, "Films", "Found in the attic (1968).mp4"));
  return folder;
}

/** Walks to a folder with the chooser, and adds it. */
async function addFolder(kit, folder) {
  const { page } = kit;
  const path = page.getByLabel("Folder on the server");
  await page.getByRole("button", { name: "Open tmp", exact: true }).click();
  await waitUntil("the folder is open", async () => (await path.inputValue()) === "/tmp");
  await path.fill(folder);
  await page.getByRole("button", { name: "Open", exact: true }).click();
  await page.getByRole("button", { name: "Open Films", exact: true }).click();
  await waitUntil("the folder is open", async () => (await path.inputValue()) === `${folder}/Films`);
  await page.getByText("No folders in here.").waitFor();
  await page.getByRole("button", { name: "Back to hearthcast-attic" }).click();
  await waitUntil("the folder above is open", async () => (await path.inputValue()) === folder);
  await page.getByLabel("Contains").selectOption({ label: "Films" });
  await kit.assertPressable(page.getByRole("button", { name: "Add this folder" }), "add");
  await page.getByRole("button", { name: "Add this folder" }).click();
  await page.locator(".folder-list li").filter({ hasText: folder }).getByText("Films", { exact: true }).waitFor();
}

async function mediaFolders(kit) {
  const { page, server, step } = kit;
  const folder = makeAttic(server);
  await step("admin-folders", async () => {
    await kit.openScreen("settings?tab=folders");
    const configured = page.locator(".folder-list li").filter({ hasText: server.media });
    await configured.getByText("Set in the server’s configuration (or --root)").waitFor();
    assert.equal(await configured.getByRole("button").count(), 0, "it cannot be removed here");
    await addFolder(kit, folder);
    await kit.waitForItem("Found in the attic (1968).mp4");
    kit.assertClean(); // The next requests are refused on purpose, and browsers log that.
    for (const [path, sentence] of [[folder, "This folder is in the library already."], ["/proc", /belongs to the system/], [`${folder}/gone`, /no such folder/]]) {
      await page.getByLabel("Folder on the server").fill(path);
      await page.getByRole("button", { name: "Add this folder" }).click();
      await page.getByRole("alert").filter({ hasText: sentence }).waitFor();
    }
    kit.faults.splice(0, kit.faults.length, ...kit.faults.filter((fault) => !/40[049]/.test(fault)));
    await kit.screenshot("admin-folder-refused");
    const added = page.locator(".folder-list li").filter({ hasText: folder });
    await added.getByRole("button", { name: "Remove" }).click();
    await added.getByRole("button", { name: "Tap again to remove" }).click();
    await added.waitFor({ state: "detached" });
    await waitUntil("the film has left the library", async () => {
      const { body } = await kit.api("GET", "/api/library/items?limit=200");
      return !body.items.some(({ mediaPath }) => mediaPath.startsWith(folder));
    });
  });
  rmSync(folder, { recursive: true });
}

/** A server that was started without media folders: the set-up begins with them. */
async function setUpWithoutFolders(server, openPage) {
  const folder = makeAttic(server);
  const empty = await server.startEmpty();
  try {
    const phone = await openPage("phone-", { width: 390, height: 844 }, empty, undefined, true);
    const { page, step } = phone;
    await step("set-up-folders", async () => {
      await page.goto(empty.link);
      await page.getByLabel("Name").fill(NAME);
      await page.getByLabel("Password").fill(PASSWORD);
      await page.getByRole("button", { name: "Create account" }).click();
      await page.getByRole("heading", { name: "Where are your films and your music?" }).waitFor();
      await addFolder(phone, folder);
      await phone.assertNoSidewaysScroll();
      await phone.screenshot("set-up-folder-added");
      await page.getByRole("button", { name: "Continue" }).click();
      await page.getByRole("button", { name: "Films" }).click();
      await page.getByRole("heading", { name: "“Films” is now on air." }).waitFor();
    });
    phone.assertClean();
    await page.context().close();
  } finally {
    assert.equal(await empty.stop(), 0);
    rmSync(folder, { recursive: true });
  }
}
