// A browser page for the steps: its requests and errors, and helpers to press, wait and check playback.

import assert from "node:assert/strict";
import { join } from "node:path";
import { MAX_WAIT_SECONDS, NAME, PASSWORD, waitUntil } from "./program.mjs";

export { NAME, PASSWORD };

const SHORT_TIMEOUT = { timeout: 3000 };

/** Whether a step of any window has failed. */
let hasFailed = false;

/** A new page, not signed in unless `storageState` is that of a page that is. */
export async function createKit({ browser, server, shots, name = "", viewport = { width: 1280, height: 800 }, storageState, isTouch = false, locale, serviceWorkers = "block" }) {
  const page = await (await browser.newContext({ viewport, colorScheme: "dark", reducedMotion: "reduce", locale, serviceWorkers, storageState, hasTouch: isTouch, isMobile: isTouch })).newPage();
  page.setDefaultTimeout(MAX_WAIT_SECONDS * 1000);
  const faults = [];
  const requests = [];
  // 503 is not an error: the page retries while the server is busy.
  // Audio that was not examined yet may turn out to have no cover; its tile shows the title.
  const isMissingImage = (message) => /404/.test(message.text()) && /\/artwork\//.test(message.location().url);
  page.on("console", (message) => message.type() === "error" && !/503/.test(message.text()) && !isMissingImage(message) && faults.push(`console: ${message.text()} ${message.location().url}`));
  page.on("pageerror", (fault) => faults.push(`page: ${fault.stack ?? fault}`));
  page.on("request", (request) => requests.push(`${request.method()} ${request.url()}`));
  const responseLog = []; // The last responses, printed when a step fails.
  const logResponse = (request, result) => {
    const elapsed = Math.max(0, Math.round(request.timing().responseEnd));
    responseLog.push(`${new Date().toISOString().slice(17, 23)} ${result} ${request.method()} ${request.url().slice(server.base.length, server.base.length + 120)} ${elapsed} ms`);
    if (responseLog.length > 60) responseLog.shift();
  };
  page.on("requestfinished", async (request) => logResponse(request, (await request.response().catch(() => null))?.status()));
  page.on("requestfailed", (request) => logResponse(request, request.failure()?.errorText));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  /** Moves the mouse to show the overlay, then acts; repeats it because a slow machine may be later than the overlay hides. */
  const withOverlay = (condition, action) => waitUntil(condition, async () => {
    await page.mouse.move(300, 300);
    await page.mouse.move(320, 320);
    return action().then(() => true, () => false);
  });
  const kit = {
    page, server, requests, faults,

    /** Runs one step and saves a screenshot of its result. */
    async step(title, run) {
      const began = Date.now();
      await run().catch((fault) => {
        // The browser closes after the first failure, so that steps of other windows fail as well.
        if (!hasFailed) console.error(`--- ${name}${title} failed at ${page.url()}; its last responses:\n${responseLog.join("\n")}`);
        hasFailed = true;
        throw new Error(`${name}${title}: ${fault.message}`, { cause: fault });
      }).finally(() => page.screenshot({ path: join(shots, `${name}${title}.png`) }).catch(() => {}));
      console.log(`ok ${name}${title} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
    },

    /** Saves a screenshot. */
    screenshot: (title) => page.screenshot({ path: join(shots, `${name}${title}.png`) }).catch(() => {}),

    async signIn(username = NAME, password = PASSWORD) {
      await page.goto(`${server.base}/`);
      await page.getByLabel("Name").fill(username);
      await page.getByLabel("Password").fill(password);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.locator("#menu").waitFor();
    },

    /** Loads the page at a screen. */
    async openScreen(address) {
      const { href } = new URL(`${server.base}/#/${address}`);
      // `goto` takes any change of the fragment, also one by the page itself, for the one to the other fragment; a reload would then
      // show the former screen again.
      await Promise.all([page.waitForURL(href), page.goto(href)]);
      await page.reload();
    },

    /** Goes to a folder of the sample media by its links. */
    async openFolder(...names) {
      await kit.openScreen("library?kind=folders");
      for (const name of [/media|demo/i, ...names]) await page.locator(".entry").filter({ hasText: name }).first().click();
    },

    /** Goes to another screen as a link does, without loading the page. The previous screen is gone when this resolves. */
    goToScreen: (address) => page.evaluate((hash) => new Promise((resolve) => {
      if (location.hash === hash) throw new Error(`${hash} is shown already`);
      addEventListener("hashchange", () => resolve(), { once: true });
      location.hash = hash;
    }), `#/${address}`),

    /** Sends a request with the token of the page. */
    api: (method, path, body) => page.evaluate(async ([method, path, body]) => {
      const headers = { Authorization: `Bearer ${localStorage.getItem("hearthcast.token")}`, "Content-Type": "application/json" };
      const response = await fetch(new URL(`.${path}`, document.baseURI), { method, headers, body: body && JSON.stringify(body) });
      return { status: response.status, body: await response.json().catch(() => null) };
    }, [method, path, body]),

    /** Waits until the catalogue has an item whose file is `name`; returns it. */
    waitForItem: (name) => waitUntil(`the catalogue has ${name}`, async () => {
      for (let cursor = ""; cursor !== null;) {
        const { body } = await kit.api("GET", `/api/library/items?limit=200${cursor && `&cursor=${cursor}`}`);
        const found = body.items.find(({ mediaPath }) => mediaPath.endsWith(name));
        if (found) return found;
        cursor = body.nextCursor;
      }
      return null;
    }),

    /** Asserts that there were no errors, foreign requests or tokens in addresses so far. */
    assertClean() {
      assert.deepEqual(faults, [], "the page must not log errors");
      const foreignRequests = requests.filter((line) => !line.includes(` ${server.base}/`) && !line.includes(` blob:${new URL(server.base).origin}/`));
      assert.deepEqual(foreignRequests, [], "the page must not send requests to other servers");
      assert.ok(!requests.some((line) => /[^\w-]hc_/.test(line)), "addresses must not contain tokens"); // A signature may have the letters by chance.
    },

    /** The ids of the sessions whose media playlists were requested so far. */
    sessionIds: () => [...new Set(requests.map((line) => line.match(/transcode\/(ts_[^/?]+)\/index\.m3u8/)?.[1]).filter(Boolean))],

    position: (kind) => page.evaluate((kind) => document.querySelector(kind)?.currentTime ?? 0, kind),
    seek: (kind, at) => page.evaluate(([kind, at]) => { document.querySelector(kind).currentTime = at; }, [kind, at]),

    /** Waits until the element plays after `from` seconds; asserts that video is not black. */
    async waitUntilPlaying(kind, from = 0) {
      const alert = page.getByRole("alert");
      const startedAt = await waitUntil(`${kind} plays from ${from} s`, async () => {
        if (await alert.first().isVisible().catch(() => false)) throw new Error(`the page shows: ${await alert.first().textContent()}`);
        const at = await kit.position(kind);
        return at > from && at;
      });
      await waitUntil(`${kind} keeps playing`, async () => (await kit.position(kind)) > startedAt + 0.8);
      if (kind !== "video") return;
      const brightness = await page.evaluate(() => {
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [64, 36];
        const context = canvas.getContext("2d");
        context.drawImage(document.querySelector("video"), 0, 0, 64, 36);
        const { data } = context.getImageData(0, 0, 64, 36);
        const values = [...data].filter((_, n) => n % 4 !== 3);
        return { mean: values.reduce((sum, v) => sum + v, 0) / values.length, spread: Math.max(...values) - Math.min(...values) };
      });
      assert.ok(brightness.mean > 20 && brightness.spread > 60, `the frame must not be blank: ${JSON.stringify(brightness)}`);
    },

    /** Chooses from a group of a panel: `Audio` and `Subtitles` are in one, `Quality`, `Speed` and `Sleep timer` in the other. */
    async chooseOption(group, label) {
      const panel = /Audio|Subtitles/.test(group) ? "Audio and subtitles" : "Quality and speed";
      const choice = page.getByRole("radiogroup", { name: group, exact: true }).getByRole("radio", { name: label, exact: true });
      await withOverlay(`${label} is chosen`, async () => {
        if (!(await choice.isVisible())) await page.getByRole("button", { name: panel, exact: true }).click(SHORT_TIMEOUT);
        await choice.click(SHORT_TIMEOUT);
        assert.equal(await choice.getAttribute("aria-checked"), "true");
      });
      await page.keyboard.press("Escape");
    },

    /** The label of what is chosen in a group, shown or not. */
    chosenOption: (group) => page.locator(`[role=radiogroup][aria-label="${group}"] [aria-checked=true]`).textContent(),

    /** Presses a button of the overlay. */
    async pressOverlayButton(button) {
      await withOverlay(`${button} is pressed`, () => page.getByRole("button", { name: button, exact: true }).click(SHORT_TIMEOUT));
    },

    /** Seeks to `at` seconds and waits for a subtitle there. */
    async waitForCue(words, at) {
      await kit.seek("video", at);
      await page.locator(".subtitles .cue").filter({ hasText: words }).waitFor();
    },

    /** Asserts that an element is visible, within the window, and on top at its centre. */
    async assertPressable(locator, what) {
      const found = await locator.first().evaluate((element) => {
        const { left, top, width, height } = element.getBoundingClientRect();
        const [x, y] = [left + width / 2, top + height / 2];
        const onTop = document.elementFromPoint(x, y);
        return { size: [width, height], inside: left >= 0 && top >= 0 && left + width <= innerWidth + 0.5 && top + height <= innerHeight + 0.5,
          isOnTop: element.contains(onTop) || onTop?.contains(element) && onTop.tagName === "LABEL", onTop: onTop?.outerHTML.slice(0, 120) };
      });
      assert.ok(found.isOnTop && found.inside && found.size[0] > 0, `${what}: ${JSON.stringify(found)}`);
    },

    /** Presses keys one after the other. */
    async press(...keys) {
      for (const key of keys) await page.keyboard.press(key);
    },

    /** The focused element: its label or text, its tag, and whether it is in view. */
    getFocused: () => page.evaluate(() => {
      const element = document.activeElement;
      const { top, bottom, left, right } = element.getBoundingClientRect();
      const inView = bottom > 0 && right > 0 && top < innerHeight && left < innerWidth;
      return { text: element.getAttribute("aria-label") ?? element.textContent.trim(), tag: element.tagName, inView };
    }),

    async assertNoSidewaysScroll() {
      const isTooWide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
      assert.ok(!isTooWide, "the page must not scroll sideways");
    },
  };
  return kit;
}
