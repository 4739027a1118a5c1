// Books: one file with chapters, and a folder of files played on one line.

import assert from "node:assert/strict";
import { until } from "./program.mjs";

const PARTS = ["1 Setting out", "2 Over the pass", "10 Home again"];
const LENGTH = 12;

export async function books(kit) {
  const { page, server, step, playing, position, press } = kit;
  for (const [n, part] of PARTS.entries()) {
    const codec = part.startsWith("2") ? ["-c:a", "ac3"] : ["-c:a", "libmp3lame"];
    const sound = `aevalsrc='0.1*sin(${300 + 100 * n}*2*PI*t)':s=44100:d=${LENGTH}`;
    server.make(`Audiobooks/The Long Walk/${part}.${part.startsWith("2") ? "ac3" : "mp3"}`, ["-f", "lavfi", "-i", sound, ...codec]);
  }

  await step("book-of-one-file", async () => {
    await kit.screen("library");
    await page.getByRole("link", { name: /media|demo/i }).click();
    await page.getByRole("link", { name: "Audiobooks" }).click();
    await page.getByRole("link", { name: /^Details: By the Fire/ }).click();
    await page.getByRole("link", { name: "Listen" }).click();
    await playing("audio");
    await page.getByRole("button", { name: /The long evening/ }).click();
    await playing("audio", 20);
  });

  const heading = () => page.locator(".now-chapter").textContent();
  const at = async () => Number(await page.getByLabel("Position").inputValue());
  await step("book-of-a-folder", async () => {
    await kit.screen("library");
    await page.getByRole("link", { name: /media|demo/i }).click();
    await page.getByRole("link", { name: "Audiobooks" }).click();
    await page.getByRole("link", { name: "The Long Walk" }).click();
    await page.getByRole("link", { name: "Listen to this folder as one book" }).click();
    await playing("audio");
    assert.equal(await page.locator(".chapter").count(), 3);
    assert.match(await heading(), /Setting out/);
    const length = Number(await page.getByLabel("Position").getAttribute("max"));
    assert.ok(length > 3 * LENGTH - 1 && length < 3 * LENGTH + 1, `one line of all files: ${length}`);
  });

  await step("book-one-file-follows-another", async () => {
    await seek(LENGTH - 3);
    await until("the second file follows by itself", async () => /Over the pass/.test(await heading()));
    await playing("audio");
    assert.ok((await position("audio")) < 6, "it begins at its beginning");
    assert.ok((await at()) > LENGTH - 0.5, "on the book's line");
  });

  await step("book-seek-across-files", async () => {
    await seek(2 * LENGTH + 5);
    await until("the third file", async () => /Home again/.test(await heading()));
    await playing("audio", 4.5);
    await page.getByRole("button", { name: /^Back to 0:1/ }).click();
    await until("a long jump can be taken back", async () => /Over the pass/.test(await heading()));
    await playing("audio");
    const past = await page.getByLabel("Where I was").locator("option").allTextContents();
    assert.match(past[1] ?? "", /^0:0\d · .*Setting out · /, `${past}`);
    await page.getByRole("button", { name: /Home again/ }).click();
    await until("a chapter is a file", async () => (await at()) >= 2 * LENGTH - 0.5);
    await playing("audio");
  });

  await step("book-goes-on-where-it-was", async () => {
    await page.getByLabel("Speed").selectOption({ label: "1.5×" });
    await seek(LENGTH + 5);
    await until("the second file again", async () => /Over the pass/.test(await heading()));
    await playing("audio", 4);
    await page.getByRole("button", { name: "Pause" }).click();
    const left = await at();
    const query = new URLSearchParams({ path: `${server.media}/Audiobooks/The Long Walk` });
    const known = await until("the place in the book is kept, not the one in its file", async () => {
      const { body } = await kit.api("GET", `/api/stream/audiobook/progress?${query}`);
      return body.progress && Math.abs(body.progress.positionSeconds - left) < 1.5 && body.progress;
    });
    assert.deepEqual([known.chapterIndex, known.playbackRate], [1, 1.5]);
    await page.reload();
    await playing("audio", left - LENGTH - 1);
    assert.match(await heading(), /Over the pass/);
    assert.equal(await page.getByLabel("Speed").inputValue(), "1.5");
  });

  await step("book-where-one-was", async () => {
    const menu = page.getByLabel("Where I was");
    const places = await menu.locator("option").allTextContents();
    const first = places.findIndex((place) => /Setting out/.test(place));
    assert.ok(first > 0, `a reload forgets nothing: ${places}`);
    await menu.selectOption({ index: first });
    await until("back in the first file", async () => /Setting out/.test(await heading()));
    await playing("audio");
    assert.equal((await menu.locator("option").count()), places.length - 1, "taken back once");
  });

  await step("book-to-its-end", async () => {
    await seek(3 * LENGTH - 2);
    await until("it is kept as read", async () => {
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
