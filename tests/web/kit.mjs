// What every step of the journey needs: one page, what it asked for, what went wrong, and whether something plays.

import assert from "node:assert/strict";
import { join } from "node:path";
import { NAME, PASSWORD, until } from "./program.mjs";

export { NAME, PASSWORD };

const SOON = { timeout: 3000 };

/** A page of its own, signed in nowhere. */
export async function kit({ browser, server, shots, name = "", viewport = { width: 1280, height: 800 } }) {
  const page = await (await browser.newContext({ viewport, colorScheme: "dark", reducedMotion: "reduce" })).newPage();
  page.setDefaultTimeout(60_000); // A condition that comes late has come: machines that test are busy.
  const faults = [];
  const asked = [];
  // A busy converter is no fault: the page asks again.
  page.on("console", (message) => message.type() === "error" && !/503/.test(message.text()) && faults.push(`console: ${message.text()} ${message.location().url}`));
  page.on("pageerror", (fault) => faults.push(`page: ${fault.stack ?? fault}`));
  page.on("request", (request) => asked.push(`${request.method()} ${request.url()}`));
  const trail = []; // The last answers, for whoever reads how a step failed.
  const noted = (request, came) => {
    const took = Math.max(0, Math.round(request.timing().responseEnd));
    trail.push(`${new Date().toISOString().slice(17, 23)} ${came} ${request.method()} ${request.url().slice(server.base.length, server.base.length + 120)} ${took} ms`);
    if (trail.length > 60) trail.shift();
  };
  page.on("requestfinished", async (request) => noted(request, (await request.response().catch(() => null))?.status()));
  page.on("requestfailed", (request) => noted(request, request.failure()?.errorText));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  /** Moves what wakes the page, then acts; as often as it takes on a machine that is slower than the page is patient. */
  const awake = (what, act) => until(what, async () => {
    await page.mouse.move(300, 300);
    await page.mouse.move(320, 320);
    return act().then(() => true, () => false);
  });
  const self = {
    page, server, asked, faults, trail,

    /** Does one thing and keeps a picture of what it came to. */
    async step(what, act) {
      const began = Date.now();
      await act().finally(() => page.screenshot({ path: join(shots, `${name}${what}.png`) }).catch(() => {}));
      console.log(`ok ${name}${what} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
    },

    /** Keeps a picture. */
    picture: (what) => page.screenshot({ path: join(shots, `${name}${what}.png`) }).catch(() => {}),

    async signIn(who = NAME, password = PASSWORD) {
      await page.goto(`${server.base}/`);
      await page.getByLabel("Name").fill(who);
      await page.getByLabel("Password").fill(password);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.locator("#menu").waitFor();
    },

    /** Opens a screen as if the page had just been opened there. */
    async screen(address) {
      await page.goto(`${server.base}/#/${address}`);
      await page.reload();
    },
    /** A request with the token the page has. */
    api: (method, path, body) => page.evaluate(async ([method, path, body]) => {
      const headers = { Authorization: `Bearer ${localStorage.getItem("hearthcast.token")}`, "Content-Type": "application/json" };
      const answer = await fetch(new URL(`.${path}`, document.baseURI), { method, headers, body: body && JSON.stringify(body) });
      return { status: answer.status, body: await answer.json().catch(() => null) };
    }, [method, path, body]),

    /** What the page must be without, so far. */
    clean() {
      assert.deepEqual(faults, [], "the page must run without an error");
      const foreign = asked.filter((line) => !line.includes(` ${server.base}/`) && !line.includes(` blob:${new URL(server.base).origin}/`));
      assert.deepEqual(foreign, [], "nothing may be asked of anybody else");
      assert.ok(!asked.some((line) => line.includes("hc_")), "no token may stand in an address");
    },

    /** Sessions started so far: their media playlists were asked for under so many ids. */
    sessions: () => [...new Set(asked.map((line) => line.match(/transcode\/(ts_[^/?]+)\/index\.m3u8/)?.[1]).filter(Boolean))],

    position: (kind) => page.evaluate((kind) => document.querySelector(kind)?.currentTime ?? 0, kind),
    go: (kind, at) => page.evaluate(([kind, at]) => { document.querySelector(kind).currentTime = at; }, [kind, at]),

    /** Time passes in the element from `from` on, and its picture is not black. */
    async playing(kind, from = 0) {
      const alert = page.getByRole("alert");
      const first = await until(`${kind} plays from ${from} s`, async () => {
        if (await alert.first().isVisible().catch(() => false)) throw new Error(`the page says: ${await alert.first().textContent()}`);
        const at = await self.position(kind);
        return at > from && at;
      });
      await until(`${kind} goes on`, async () => (await self.position(kind)) > first + 0.8);
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
    },

    /** Chooses in a menu that may have gone to leave the picture alone. */
    async choose(menu, label) {
      await awake(`${label} is chosen`, () => page.getByLabel(menu).selectOption({ label }, SOON));
    },

    /** Presses a button that may have gone to leave the picture alone. */
    async pressOver(button) {
      await awake(`${button} is pressed`, () => page.getByRole("button", { name: button, exact: true }).click(SOON));
    },

    /** The subtitle on screen at `at` seconds. */
    async cue(words, at) {
      await self.go("video", at);
      await until(`the subtitle "${words}"`, () => page.evaluate((words) => {
        const tracks = [...document.querySelector("video").textTracks];
        return tracks.some((track) => track.mode === "showing" && [...(track.activeCues ?? [])].some((cue) => cue.text === words));
      }, words));
    },

    /** Presses keys one after the other. */
    async press(...keys) {
      for (const key of keys) await page.keyboard.press(key);
    },

    /** What is focused: its label or its text. It must be seen. */
    focused: () => page.evaluate(() => {
      const element = document.activeElement;
      const { top, bottom, left, right } = element.getBoundingClientRect();
      const inView = bottom > 0 && right > 0 && top < innerHeight && left < innerWidth;
      return { text: element.getAttribute("aria-label") ?? element.textContent.trim(), tag: element.tagName, inView };
    }),

    async fitsSideways() {
      const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
      assert.ok(!wide, "the page must not scroll sideways");
    },
  };
  return self;
}
