// Audiobooks: a file with chapters, and a folder of files as one timeline.

import assert from "node:assert/strict";
import { waitUntil } from "./program.mjs";

const PARTS = ["1 Setting out", "2 Over the pass", "10 Home again"];
const PART_SECONDS = 12;

export async function books(kit) {
  const { page, server, requests, step, waitUntilPlaying, position, press } = kit;
  for (const [n, part] of PARTS.entries()) {
    const codec = part.startsWith("2") ? ["-c:a", "ac3"] : ["-c:a", "libmp3lame"];
    const audioFilter = `aevalsrc='0.1*sin(${300 + 100 * n}*2*PI*t)':s=44100:d=${PART_SECONDS}`;
    server.makeMedia(`Audiobooks/The Long Walk/${part}.${part.startsWith("2") ? "ac3" : "mp3"}`, ["-f", "lavfi", "-i", audioFilter, ...codec]);
  }

  await step("book-of-one-file", async () => {
    await kit.openFolder("Audiobooks");
    assert.match(await page.getByRole("link", { name: /^By the Fire/ }).getAttribute("href"), /^#\/book\?/, "an m4b opens as an audiobook");
    await page.getByRole("link", { name: /^Details: By the Fire/ }).click();
    await page.getByRole("link", { name: "Listen" }).click();
    await waitUntilPlaying("audio");
    await page.getByRole("button", { name: /The long evening/ }).click();
    await waitUntilPlaying("audio", 20);
  });

  const sleepTimer = () => kit.chosenOption("Sleep timer");
  await step("book-sleep-timer", async () => {
    await kit.chooseOption("Sleep timer", "End of chapter");
    await page.getByRole("button", { name: /Embers/ }).click();
    await waitUntilPlaying("audio", 40);
    assert.equal(await sleepTimer(), "End of chapter", "after a jump, the timer applies to the next chapter");
    await seek(37);
    await waitUntil("playback pauses at the end of the chapter", () => page.evaluate(() => document.querySelector("audio").paused));
    const stoppedAt = await position("audio");
    assert.ok(stoppedAt > 39 && stoppedAt < 45, `the chapter ends at 40 s, not at ${stoppedAt}`);
    assert.equal(await sleepTimer(), "Off", "the menu shows that the timer is off");
    await kit.chooseOption("Sleep timer", "15 minutes");
    await page.getByRole("timer").filter({ hasText: /^1[45]:\d\d$/ }).waitFor();
  });

  await step("book-next-file-fails", async () => {
    // The first file is so short that the next one is opened ahead at once.
    const tone = "aevalsrc='0.1*sin(400*2*PI*t)':s=44100:d=19";
    server.makeMedia("Audiobooks/The Way Back/1 Uphill.mp3", ["-f", "lavfi", "-i", tone, "-c:a", "libmp3lame"]);
    server.makeMedia("Audiobooks/The Way Back/2 Downhill.ac3", ["-f", "lavfi", "-i", tone, "-c:a", "ac3"]);
    const refusal = { status: 503, json: { error: "the disk does not answer", code: "STORAGE_TIMEOUT", requestId: "-" } };
    const start = "**/api/stream/transcode/start";
    let attempts = 0;
    await page.route(start, (route) => {
      if (!route.request().postDataJSON().mediaPath.includes("Downhill")) return route.continue();
      attempts += 1;
      return route.fulfill(refusal);
    });
    await page.goto(`${server.base}/#/book?${new URLSearchParams({ path: `${server.media}/Audiobooks/The Way Back` })}`);
    await page.getByRole("button", { name: /Downhill/ }).waitFor();
    assert.equal(await sleepTimer(), "Off", "another book has no timer");
    await waitUntil("the next file is refused", () => attempts > 0);
    const refusedAt = await position("audio");
    await waitUntil("three more seconds are played", async () => (await position("audio")) > refusedAt + 3);
    assert.equal(attempts, 1, "opening ahead is not repeated");
    await page.unroute(start);

    // Its session starts, but its playlist fails.
    const playlist = /\/transcode\/(ts_[^/?]+)\/[^?]*\.m3u8\?.*wait=20/;
    let session = null;
    await page.route(playlist, (route) => {
      session = route.request().url().match(playlist)[1];
      return route.fulfill(refusal);
    });
    await page.getByRole("button", { name: /Downhill/ }).click();
    await waitUntil("its session is ended", () => session && requests.some((line) => line.startsWith("DELETE ") && line.includes(session)));
    await page.unroute(playlist);
  });

  const chapterTitle = () => page.locator(".now-chapter").textContent();
  const bookPosition = async () => Number(await page.getByLabel("Position").inputValue());
  await step("book-of-a-folder", async () => {
    await kit.openFolder("Audiobooks", "The Long Walk");
    await page.getByRole("link", { name: "Play as audiobook" }).click();
    await waitUntilPlaying("audio");
    assert.equal(await page.locator(".panel-chapters .chapter").count(), 3);
    assert.match(await chapterTitle(), /Setting out/);
    const length = Number(await page.getByLabel("Position").getAttribute("max"));
    assert.ok(length > 3 * PART_SECONDS - 1 && length < 3 * PART_SECONDS + 1, `the timeline must cover all files: ${length}`);
  });

  await step("book-one-file-follows-another", async () => {
    await seek(PART_SECONDS - 3);
    await waitUntil("the second file follows by itself", async () => /Over the pass/.test(await chapterTitle()));
    await waitUntilPlaying("audio");
    assert.ok((await position("audio")) < 6, "the file must play from its start");
    assert.ok((await bookPosition()) > PART_SECONDS - 0.5, "the position must be that of the book");
  });

  await step("book-seek-across-files", async () => {
    await seek(2 * PART_SECONDS + 5);
    await waitUntil("the third file", async () => /Home again/.test(await chapterTitle()));
    await waitUntilPlaying("audio", 4.5);
    await page.getByRole("button", { name: /^Undo jump \(0:1/ }).click();
    await waitUntil("the jump is undone", async () => /Over the pass/.test(await chapterTitle()));
    await waitUntilPlaying("audio");
    const historyEntries = await page.locator(".panel-history .chapter").allTextContents();
    assert.match(historyEntries[0] ?? "", /^0:0\d · .*Setting out/, `${historyEntries}`);
    await page.getByRole("button", { name: /Home again/ }).click();
    await waitUntil("the third file from its start", async () => (await bookPosition()) >= 2 * PART_SECONDS - 0.5);
    await waitUntilPlaying("audio");
  });

  await step("book-resumes", async () => {
    await kit.chooseOption("Speed", "1.5×");
    await seek(PART_SECONDS + 5);
    await waitUntil("the second file again", async () => /Over the pass/.test(await chapterTitle()));
    await waitUntilPlaying("audio", 4);
    await page.getByRole("button", { name: "Pause" }).click();
    const savedPosition = await bookPosition();
    const query = new URLSearchParams({ path: `${server.media}/Audiobooks/The Long Walk` });
    const progress = await waitUntil("the position in the book is saved, not that in the file", async () => {
      const { body } = await kit.api("GET", `/api/stream/audiobook/progress?${query}`);
      return body.progress && Math.abs(body.progress.positionSeconds - savedPosition) < 1.5 && body.progress;
    });
    assert.deepEqual([progress.chapterIndex, progress.playbackRate], [1, 1.5]);
    await page.reload();
    await waitUntilPlaying("audio", savedPosition - PART_SECONDS - 1);
    assert.match(await chapterTitle(), /Over the pass/);
    assert.equal(await kit.chosenOption("Speed"), "1.5×");
  });

  await step("book-history", async () => {
    const entries = page.locator(".panel-history .chapter");
    const count = await entries.count();
    await page.getByRole("button", { name: "History" }).click();
    await entries.filter({ hasText: "Setting out" }).first().click(); // They survive a reload.
    await waitUntil("back in the first file", async () => /Setting out/.test(await chapterTitle()));
    await waitUntilPlaying("audio");
    assert.equal(await entries.count(), count - 1, "the entry is removed");
  });

  await step("book-sleep-timer-at-the-end-of-a-file", async () => {
    // The player learns the position only when the file has ended, as on a busy machine or at a high speed.
    await page.evaluate(() => {
      window.holdTimeUpdate = (event) => event.target.ended || event.stopPropagation();
      document.addEventListener("timeupdate", window.holdTimeUpdate, true);
    });
    await kit.chooseOption("Sleep timer", "End of chapter");
    await seek(PART_SECONDS - 2);
    await waitUntil("the timer ends", async () => (await sleepTimer()) === "Off");
    const query = new URLSearchParams({ path: `${server.media}/Audiobooks/The Long Walk` });
    await waitUntil("the start of the second file is saved", async () => {
      const { body } = await kit.api("GET", `/api/stream/audiobook/progress?${query}`);
      return Math.abs((body.progress?.positionSeconds ?? 0) - PART_SECONDS) < 0.3;
    });
    assert.ok(await page.evaluate(() => document.querySelector("audio").ended), "the second file must not play");
    await page.evaluate(() => document.removeEventListener("timeupdate", window.holdTimeUpdate, true));
    await page.getByRole("button", { name: "Play", exact: true }).click();
    await waitUntil("the second file plays from its start", async () => {
      const at = await position("audio");
      return at > 0 && at < 6;
    });
    await waitUntilPlaying("audio");
    assert.match(await chapterTitle(), /Over the pass/);
  });

  await step("book-completed", async () => {
    await seek(3 * PART_SECONDS - 2);
    await waitUntil("the book is saved as completed", async () => {
      const { body } = await kit.api("GET", "/api/stream/audiobook/history?limit=5");
      return body.history.find(({ title }) => title === "The Long Walk")?.completed;
    });
  });
  await press("Escape");
  await page.locator(".entry").first().waitFor();

  async function seek(to) {
    await page.getByLabel("Position").evaluate((slider, to) => {
      slider.value = String(to);
      for (const name of ["input", "change"]) slider.dispatchEvent(new Event(name, { bubbles: true }));
    }, to);
  }
}
