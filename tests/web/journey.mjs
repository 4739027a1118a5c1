// From the printed link to a picture, in a real browser: set up, browse, play a file as it is, play files that must be
// converted, choose sound and subtitles, sign out and in again. Nothing may leave the server, nothing may break the
// page's policy.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { demo, until } from "./program.mjs";

const [binary, shots] = process.argv.slice(2);
mkdirSync(shots, { recursive: true });

const server = await demo(binary);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--mute-audio", "--autoplay-policy=no-user-gesture-required"],
});
let failed = false;
try {
  await journey();
} catch (fault) {
  failed = true;
  console.error(fault);
  console.error(`--- the program said:\n${server.said()}`);
} finally {
  await browser.close();
  const code = await server.stop();
  if (code !== 0) {
    failed = true;
    console.error(`the program ended with ${code} after SIGTERM`);
  }
}
process.exit(failed ? 1 : 0);

async function journey() {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: "dark" })).newPage();
  const faults = [];
  const asked = [];
  // A busy converter is no fault: the page asks again.
  page.on("console", (message) => message.type() === "error" && !/503/.test(message.text()) && faults.push(`console: ${message.text()}`));
  page.on("pageerror", (fault) => faults.push(`page: ${fault.stack ?? fault}`));
  page.on("request", (request) => asked.push(`${request.method()} ${request.url()}`));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  const step = async (name, act) => {
    const began = Date.now();
    await act().finally(() => page.screenshot({ path: join(shots, `${name}.png`) }));
    console.log(`ok ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
  };

  await step("1-set-up", async () => {
    await page.goto(server.link);
    await page.getByLabel("Name").fill("ada");
    await page.getByLabel("Password").fill("a long evening by the fire");
    assert.match(await page.getByLabel("Set-up code").inputValue(), /^[a-z0-9-]{20,}$/);
  });
  await page.getByRole("button", { name: "Create account" }).click();

  await step("2-library", async () => {
    await server.ready();
    await page.getByRole("link", { name: /media|demo/i }).click();
    await page.getByRole("link", { name: "Films" }).click();
    await page.getByRole("link", { name: "Ember" }).waitFor();
    assert.equal(await page.locator(".entry").count(), 3);
  });

  await step("3-as-it-is", async () => {
    await open("Ember");
    await playing("video");
    await page.getByText("Playing the file as it is.").waitFor();
    assert.equal(sessions().length, 0, "a direct file needs no session");
  });

  await step("4-sidecar-subtitle", async () => {
    await page.getByLabel("Subtitles").selectOption({ label: "English" });
    await cue("A fire, and nothing to hurry for.", 3);
  });

  await step("5-seek", async () => {
    await page.evaluate(() => { document.querySelector("video").currentTime = 50; });
    await playing("video", 50);
  });

  await back();
  await step("6-sound-converted", async () => {
    await open("Tides");
    await playing("video");
    await page.getByText(/sound converted, because .* its sound format/).waitFor();
    assert.equal(sessions().length, 1);
  });

  await step("7-other-sound-at-the-same-moment", async () => {
    await page.evaluate(() => { document.querySelector("video").currentTime = 30; });
    await playing("video", 30);
    await page.getByLabel("Sound").selectOption({ label: "German · mono" });
    await until("a second session", () => sessions().length === 2);
    await playing("video", 29);
    assert.ok((await position("video")) < 45, "another sound track goes on where the first one was");
  });

  await step("8-embedded-subtitle", async () => {
    await page.getByLabel("Subtitles").selectOption({ label: "German" });
    await cue("Bleib, so lange du magst.", 43);
  });

  await back();
  await step("9-all-converted", async () => {
    await open("Night Train");
    await playing("video");
    await page.getByText(/picture converted/).waitFor();
  });
  await back();
  await until("every session was stopped", () => {
    const stops = asked.filter((line) => /^(DELETE|POST) .*\/transcode\/ts_[^/]+(\/stop.*)?$/.test(line));
    return stops.length >= sessions().length;
  });

  await step("10-sound-book", async () => {
    await page.getByRole("link", { name: "Up one folder" }).click();
    await page.getByRole("link", { name: "Audiobooks" }).click();
    await open("By the Fire");
    await playing("audio");
    await page.getByRole("button", { name: /The long evening/ }).click();
    await playing("audio", 20);
  });

  await step("11-signed-out", async () => {
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Welcome back" }).waitFor();
    await page.getByLabel("Name").fill("ada");
    await page.getByLabel("Password").fill("not the password");
    report(); // What follows is refused on purpose, and browsers log refusals.
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").filter({ hasText: "do not match" }).waitFor();
    faults.splice(0, faults.length, ...faults.filter((fault) => !/401/.test(fault)));
  });

  await page.setViewportSize({ width: 390, height: 844 });
  await step("12-on-a-phone", async () => {
    await page.getByLabel("Password").fill("a long evening by the fire");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("link", { name: /media|demo/i }).click();
    await page.getByRole("link", { name: "Films" }).click();
    await open("Ember");
    await playing("video");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
    assert.ok(!wide, "the page must not scroll sideways on a phone");
  });

  await step("13-goes-on-where-it-was", async () => {
    await page.evaluate(() => { document.querySelector("video").currentTime = 20; });
    await playing("video", 20);
    const saves = () => asked.filter((line) => /^POST .*\/api\/stream\/progress$/.test(line)).length;
    const before = saves();
    await page.evaluate(() => document.querySelector("video").pause());
    await until("the page told how far it is", () => saves() > before);
    await page.reload();
    await playing("video", 19.9);
    assert.ok((await position("video")) < 29, "a reload goes on where it was");
  });

  report();
  const foreign = asked.filter((line) => !line.includes(` ${server.base}/`) && !line.includes(` blob:${server.base}/`));
  assert.deepEqual(foreign, [], "nothing may be asked of anybody else");
  assert.ok(!asked.some((line) => line.includes("hc_")), "no token may stand in an address");

  function report() {
    assert.deepEqual(faults, [], "the page must run without an error");
  }

  function open(name) {
    return page.getByRole("link", { name }).click();
  }

  async function back() {
    await page.getByRole("link", { name: "Back to the folder" }).click();
    await page.locator(".entry").first().waitFor();
  }

  /** Sessions started so far: their media playlists were asked for under so many ids. */
  function sessions() {
    return [...new Set(asked.map((line) => line.match(/transcode\/(ts_[^/?]+)\/index\.m3u8/)?.[1]).filter(Boolean))];
  }

  function position(kind) {
    return page.evaluate((kind) => document.querySelector(kind)?.currentTime ?? 0, kind);
  }

  /** Time passes in the element from `from` on, and its picture is not black. */
  async function playing(kind, from = 0) {
    const alert = page.getByRole("alert");
    const first = await until(`${kind} plays from ${from} s`, async () => {
      if (await alert.first().isVisible().catch(() => false)) throw new Error(`the page says: ${await alert.first().textContent()}`);
      const at = await position(kind);
      return at > from && at;
    });
    await until(`${kind} goes on`, async () => (await position(kind)) > first + 0.8);
    if (kind !== "video") return;
    const light = await page.evaluate(() => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [64, 36];
      const context = canvas.getContext("2d");
      context.drawImage(document.querySelector("video"), 0, 0, 64, 36);
      const { data } = context.getImageData(0, 0, 64, 36);
      const values = [...data].filter((_, n) => n % 4 !== 3);
      return { mean: values.reduce((sum, v) => sum + v, 0) / values.length, spread: Math.max(...values) - Math.min(...values) };
    });
    assert.ok(light.mean > 20 && light.spread > 60, `the picture is a picture: ${JSON.stringify(light)}`);
  }

  /** The subtitle on screen at `at` seconds. */
  async function cue(words, at) {
    await page.evaluate((at) => { document.querySelector("video").currentTime = at; }, at);
    await until(`the subtitle "${words}"`, () => page.evaluate((words) => {
      const tracks = [...document.querySelector("video").textTracks];
      return tracks.some((track) => track.mode === "showing" && [...(track.activeCues ?? [])].some((cue) => cue.text === words));
    }, words));
  }
}
