// What an admin looks after: who plays what, the log, the pipelines, and players that cannot sign in.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { NAME } from "./kit.mjs";
import { until } from "./program.mjs";

const jsqr = createRequire(import.meta.url)("jsqr");

export async function admin(kit, another) {
  const { page, server, step, press } = kit;
  const film = (name) => `${server.media}/Films/${name}`;

  await step("admin-playing", async () => {
    const wish = { mediaPath: film("Night Train (2026).mkv"), profile: { resolution: "240p" } };
    const started = await until("a place to convert in", async () => {
      const answer = await kit.api("POST", "/api/stream/transcode/start", wish);
      return answer.status === 200 && answer.body;
    });
    await kit.screen("settings?tab=playing");
    // Channels that show it have no button.
    const row = page.getByRole("row").filter({ hasText: "Night Train" }).filter({ has: page.getByRole("button") });
    await row.getByText(NAME, { exact: true }).waitFor();
    await row.getByText(/\d+×\d+/).waitFor();
    await row.getByRole("button", { name: "Stop" }).focus();
    await press("Enter");
    assert.equal((await kit.focused()).text, "Really stop?");
    await press("Enter");
    await row.waitFor({ state: "detached" });
    const { body } = await kit.api("GET", `/api/stream/transcode/${started.sessionId}/status`);
    assert.equal(body.state, "stopped");
  });

  await step("admin-server", async () => {
    await kit.screen("settings?tab=server");
    await page.getByText(/^ok · \d+ ms$/).waitFor();
    await page.getByText("Encoders", { exact: true }).waitFor();
  });

  await step("admin-log", async () => {
    await kit.screen("settings?tab=log");
    await page.locator(".log li").first().waitFor();
    // Said while one looks; by another client, for a browser would call it an error of the page.
    const answer = await fetch(`${server.base}/api/auth/me`);
    await page.getByText(answer.headers.get("x-request-id")).first().waitFor();
  });
  await step("admin-log-errors", async () => {
    await page.getByLabel("Show").selectOption({ label: "errors only" });
    await until("what is no error is hidden", async () => (await page.locator(".log li.info:visible").count()) === 0);
  });

  await step("admin-no-pipelines", async () => {
    await kit.screen("settings?tab=pipelines");
    await page.getByText(/No pipeline is at work/).or(page.locator(".drawing svg")).first().waitFor();
  });

  await step("admin-players", async () => {
    const { status } = await kit.api("POST", "/api/livetv/channels", { name: "For players", number: 701, items: [{ path: film("Ember (2026).mp4") }] });
    assert.equal(status, 201);
    await kit.screen("settings?tab=tokens");
    await page.getByLabel("Name of the device").fill("Kodi in the attic");
    await page.getByRole("button", { name: "Add" }).click();
    const links = {};
    for (const label of ["Playlist (M3U)", "Guide (XMLTV)"]) {
      links[label] = await page.getByLabel(label, { exact: true }).inputValue();
      assert.equal(await scan(page.getByLabel(`${label} as a QR code`)), links[label], "a phone reads the same");
    }
    const m3u = execFileSync("curl", ["-sf", links["Playlist (M3U)"]], { encoding: "utf8" });
    assert.ok(m3u.startsWith("#EXTM3U") && m3u.includes("For players"), m3u);
    assert.match(execFileSync("curl", ["-sf", links["Guide (XMLTV)"]], { encoding: "utf8", maxBuffer: 512e6 }), /<tv [^]*<programme [^]*<title[^>]*>Ember/);
    const channel = m3u.split("\n").find((line, n, all) => all[n - 1]?.includes("For players"));
    const played = execFileSync("ffmpeg", ["-nostdin", "-v", "error", "-i", channel, "-t", "2", "-map", "0:v", "-f", "framemd5", "-"], { encoding: "utf8", timeout: 60_000 });
    assert.ok(played.split("\n").filter((line) => /^0,/.test(line)).length > 20, "ffmpeg plays the channel of the playlist");
  });

  await step("admin-player-revoked", async () => {
    const link = await page.getByLabel("Playlist (M3U)", { exact: true }).inputValue();
    await kit.screen("settings?tab=tokens");
    assert.equal(await page.locator(".qr").count(), 0, "a secret is shown once");
    await page.getByRole("row").filter({ hasText: "Kodi" }).getByRole("button", { name: "Remove" }).click();
    await page.getByRole("button", { name: "Really remove?" }).click();
    await until("it is gone", async () => (await page.getByRole("row").filter({ hasText: "Kodi" }).count()) === 0);
    assert.equal((await fetch(link)).status, 401);
  });

  await step("admin-source", async () => {
    await kit.screen("settings?tab=sources");
    await page.getByText("Nobody has vouched for anything yet.").waitFor();
    const form = page.locator("form").filter({ hasText: "Address of the stream" });
    await form.getByLabel("Name", { exact: true }).fill("Harbour camera");
    await form.getByLabel("Address of the stream").fill("https://camera.example/live.m3u8?key=secret-of-the-camera");
    await form.getByLabel("Who offers it").fill("Our own camera");
    await form.getByLabel("Where its origin").fill("https://camera.example/terms");
    await form.getByLabel("The right in words").fill("The camera and its pictures are ours.");
    await form.getByLabel("I am authorised").check();
    await form.getByRole("button", { name: "Add" }).click();
    const row = page.getByRole("row").filter({ hasText: "Harbour camera" }).filter({ hasText: "Our own camera" });
    await row.getByText(/own content: The camera/).waitFor();
    assert.ok(!(await page.content()).includes("secret-of-the-camera"), "an address is shown without what is secret in it");
    await page.getByRole("row").filter({ hasText: "vouched for" }).waitFor();
  });

  await step("admin-source-withdrawn", async () => {
    const row = page.getByRole("row").filter({ hasText: "Harbour camera" }).filter({ hasText: "Our own camera" });
    await row.getByRole("button", { name: "Withdraw" }).click();
    await row.getByRole("button", { name: "Really withdraw?" }).click();
    await row.getByText(/withdrawn by ada/).waitFor();
    await page.getByRole("row").filter({ hasText: "withdrew" }).waitFor();
    await row.getByRole("button", { name: "Remove" }).click();
    await row.getByRole("button", { name: "Really remove?" }).click();
    await row.waitFor({ state: "detached" });
    await page.getByRole("row").filter({ hasText: "withdrew" }).waitFor();
  });

  await step("admin-import", async () => {
    await kit.screen("settings?tab=sources");
    await page.getByText("Bring in a list of channels or a guide").click();
    const form = page.locator("form").filter({ hasText: "What to call it" });
    await form.getByLabel("What to call it").fill("The town's cameras");
    await form.getByLabel("or a file").setInputFiles({ name: "town.m3u", mimeType: "audio/x-mpegurl", buffer: Buffer.from(
      "#EXTM3U\n#EXTINF:-1 tvg-id=\"square\" group-title=\"Town\",The Square\nhttps://camera.example/square.m3u8\n#EXTINF:-1,Not a stream\nudp://@239.0.0.1:1234\n") });
    await form.getByLabel("Who offers it").fill("The town");
    await form.getByLabel("Where its origin").fill("https://town.example/terms");
    await form.getByLabel("The right in words").fill("The town lets everybody show its cameras.");
    await form.getByLabel("I am authorised").check();
    await form.getByRole("button", { name: "Look first" }).click();
    await form.getByRole("cell", { name: "The Square" }).waitFor();
    await form.getByRole("cell", { name: "Not a stream" }).waitFor();
    await form.getByRole("button", { name: "Bring in" }).click();
    const row = page.getByRole("row").filter({ hasText: "The town's cameras" }).filter({ hasText: "1 channels" });
    await row.getByRole("button", { name: "Withdraw" }).click();
    await row.getByRole("button", { name: "Really withdraw?" }).click();
    await row.getByText("withdrawn").waitFor();
    await row.getByRole("button", { name: "Remove" }).click();
    await row.getByRole("button", { name: "Really remove?" }).click();
    await row.waitFor({ state: "detached" });
  });

  await step("admin-recordings", async () => {
    const { body } = await kit.api("GET", "/api/livetv/recordings");
    assert.deepEqual(body.recordings, []);
    await kit.screen("settings?tab=recordings");
    await page.getByText("Nothing is recorded, and nothing is to be.").waitFor();
  });

  // What this process converts itself, on a server that is told to.
  // GStreamer's own decoders and a container it can seek in.
  const reel = server.make("Other/Reel.mkv", ["-f", "lavfi", "-i", "testsrc=s=320x180:r=25:d=60", "-f", "lavfi", "-i",
    "sine=440:d=60", "-c:v", "mpeg2video", "-q:v", "4", "-g", "25", "-c:a", "ac3"]);
  // It lies below a path, as behind a proxy.
  const native = await server.second(["--backend", "gstreamer"],
    { HEARTHCAST_RECORDINGS: `${server.media}-recorded`, HEARTHCAST_PUBLIC_BASE_URL: "https://home.example/tv" });
  try {
    const other = await another("", undefined, native);
    await other.signIn();
    await other.step("admin-pipelines", async () => {
      const started = await other.api("POST", "/api/stream/transcode/start", { mediaPath: reel });
      assert.equal(started.status, 200);
      await other.screen("settings?tab=pipelines");
      await other.page.locator(".drawing rect").first().waitFor();
      assert.ok((await other.page.locator(".drawing .link").count()) > 0, "elements are linked");
      await other.page.locator(".drawing text").filter({ hasText: /uridecodebin3|appsink|appsrc/ }).first().waitFor();
    });
    await other.step("record-from-the-guide", async () => {
      const made = await other.api("POST", "/api/livetv/channels", { name: "Evenings", number: 1, items: [{ path: film("Ember (2026).mp4") }] });
      assert.equal(made.status, 201);
      await other.screen(`watch?channel=${made.body.channel.id}`);
      await other.playing("video");
      await other.pressOver("Record");
      await other.page.getByRole("button", { name: /Is recorded|in its way/ }).waitFor();
    });
    await other.step("record-listed", async () => {
      await other.screen("settings?tab=recordings");
      const row = other.page.getByRole("row").filter({ hasText: "Evenings" });
      await row.getByText(/being recorded|to come|done/).waitFor();
      const off = row.getByRole("button", { name: "Call off" });
      if (await off.count()) {
        await off.click();
        await row.getByRole("button", { name: "Really call off?" }).click();
      }
      // What had not begun is forgotten at once.
      await until("it is called off", async () => (await row.count()) === 0 || /called off|done/.test(await row.first().textContent({ timeout: 5000 }).catch(() => "")));
    });
    other.clean();
    await other.page.close();
  } finally {
    assert.equal(await native.stop(), 0);
  }
}

/** What a QR code on the page says. */
async function scan(code) {
  const { dots, side } = await code.evaluate(async (svg) => {
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
    // Numbers go from the page one by one, and slowly: a letter a pixel.
    return { dots: Array.from({ length: side * side }, (_, n) => (data[4 * n] < 128 ? "#" : " ")).join(""), side };
  });
  const pixels = Uint8ClampedArray.from({ length: 4 * side * side }, (_, n) => (n % 4 === 3 || dots[n >> 2] === " " ? 255 : 0));
  return jsqr(pixels, side, side)?.data;
}
