// The control set at four sizes: pressed where the eye sees it, with mouse, keys and fingers; mini player; what is remembered.

import assert from "node:assert/strict";
import { waitUntil } from "./program.mjs";
import { SIZES, atSizes } from "./sizes.mjs";

const CHAPTERS = `;FFMETADATA1
[CHAPTER]
TIMEBASE=1/1
START=0
END=12
title=Intro
[CHAPTER]
TIMEBASE=1/1
START=12
END=50
title=The harbour
`;

const CUES = `WEBVTT

00:00:00.000 --> 00:00:50.000
A line that nothing covers.
`;

export async function player(kit, openPage) {
  const { server } = kit;
  server.writeMedia("Series/chapters.txt", CHAPTERS);
  const video = ["-f", "lavfi", "-i", "testsrc2=s=640x360:r=12:d=50", "-f", "lavfi", "-i", "sine=440:d=50"];
  const codecs = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "24", "-c:a", "aac", "-movflags", "+faststart"];
  const first = server.makeMedia("Series/Harbour/Season 1/Harbour S01E01.mp4", [...video, "-i", `${server.media}/Series/chapters.txt`, "-map_chapters", "2", ...codecs]);
  for (const episode of ["Season 1/Harbour S01E02", "Season 2/Harbour S02E01"]) {
    server.makeMedia(`Series/Harbour/${episode}.mp4`, ["-i", first, "-map_chapters", "-1", "-c", "copy", "-movflags", "+faststart"]);
  }
  server.writeMedia("Series/Harbour/Season 1/Harbour S01E01.en.vtt", CUES);
  const episode = (name) => `play?${new URLSearchParams({ path: `${server.media}/Series/Harbour/${name}.mp4`, at: 1 })}`; // Whatever another page saved.
  const storageState = await kit.page.context().storageState();

  await atSizes(kit, openPage, (sized) => atSize(sized, episode));

  // The server remembers what was chosen in these windows.
  const { body: { preferences } } = await kit.api("GET", "/api/preferences");
  for (const { series } of preferences.series) await kit.api("PATCH", "/api/preferences", { languages: { subtitle: "off" }, series: { series, subtitle: "off" } });

  const desk = await openPage("", SIZES.desk.viewport, server, storageState);
  await atDesk(desk, episode);
  desk.assertClean();
  await desk.page.context().close();
}

/** What every size must offer. */
async function atSize(kit, episode) {
  const { page, step, position, seek, waitUntilPlaying, isIdle, isTouch, tapVideo, showControls, pressLocator } = kit;
  const { height } = page.viewportSize();
  const pauseAt = async (at) => {
    await page.evaluate(() => document.querySelector("video").pause());
    await seek("video", at);
  };

  await step("player-skips", async () => {
    await kit.openScreen(episode("Season 1/Harbour S01E01"));
    await waitUntilPlaying("video");
    await pauseAt(3); // On a slow machine the intro would be over.
    await showControls();
    const skip = page.getByRole("button", { name: "Skip intro" });
    await skip.waitFor();
    await kit.assertPressable(skip, "Skip intro");
    await pressLocator(skip);
    await waitUntil("the intro is skipped", async () => (await position("video")) >= 12);
  });

  await step("player-controls", async () => {
    await showControls();
    await page.evaluate(() => document.querySelector("video").pause()); // The controls stay.
    await showControls();
    const buttons = page.locator(".player :is(button, a):visible");
    assert.ok((await buttons.count()) >= 8, "the controls are there");
    for (const button of await buttons.all()) await kit.assertPressable(button, await button.getAttribute("aria-label") ?? await button.textContent());
    const bars = await page.locator(".overlay.bottom .timeline, .overlay.bottom .control-row, .overlay.top .heading").evaluateAll((all) =>
      all.reduce((sum, element) => sum + element.getBoundingClientRect().height, 0));
    assert.ok(bars < 0.42 * height, `the bars take ${bars} of ${height} px`);
    await kit.screenshot("player-controls-shown");
  });

  await step("player-panels", async () => {
    for (const name of ["Chapters", "Audio and subtitles", "Quality and speed"]) {
      const button = page.getByRole("button", { name, exact: true });
      await button.click();
      const panel = page.locator(".panel:visible");
      await kit.assertPressable(panel.locator("button").first(), `the first choice of ${name}`);
      const cut = await panel.locator("button").first().evaluate((element) => {
        const [inner, outer] = [element, element.closest(".panel")].map((part) => part.getBoundingClientRect());
        return Math.min(inner.left - outer.left, outer.right - inner.right);
      });
      assert.ok(cut >= 5, `the focus ring of ${name} has ${cut} px`);
      if (name === "Audio and subtitles") await panel.getByRole("radio", { name: "English" }).click();
      await page.keyboard.press("Escape");
      await panel.waitFor({ state: "hidden" });
    }
    const line = page.locator(".subtitles .cue");
    await line.waitFor();
    const gap = await line.evaluate((cue) => document.querySelector(".overlay.bottom .timeline").getBoundingClientRect().top - cue.getBoundingClientRect().bottom);
    assert.ok(gap >= 0, `the controls cover ${-gap} px of the subtitle`);
    await page.reload();
    await waitUntilPlaying("video");
    assert.equal(await kit.chosenOption("Subtitles"), "English", "the choice is remembered");
  });

  if (isTouch) {
    await step("player-by-finger", async () => {
      await page.evaluate(() => document.querySelector("video").play());
      const isPaused = () => page.evaluate(() => document.querySelector("video").paused);
      await showControls();
      await tapVideo(0.5, 0.2);
      await waitUntil("a tap hides the controls", isIdle);
      await tapVideo(0.5, 0.2);
      await waitUntil("a tap shows them", async () => !(await isIdle()));
      assert.ok(!(await isPaused()), "a tap does not pause");
      await seek("video", 20);
      await tapVideo(0.85, 0.3);
      await tapVideo(0.85, 0.3);
      await waitUntil("a double tap jumps", async () => (await position("video")) >= 29);
      assert.ok(!(await isPaused()), "a double tap does not pause");
      const pause = page.locator(".centre").getByRole("button", { name: "Pause" });
      await waitUntil("the button in the middle pauses", async () => {
        if (await isPaused()) return true;
        await seek("video", 20); // Else the episode ends meanwhile on a slow machine.
        await showControls();
        await pause.tap({ timeout: 1000 }).catch(() => {}); // The controls may hide meanwhile.
        return isPaused();
      });
    });
  }

  await step("player-next", async () => {
    await kit.openScreen(episode("Season 1/Harbour S01E01")); // On a slow machine the next episode is playing by now.
    await waitUntilPlaying("video");
    await pauseAt(35);
    const next = page.getByRole("button", { name: /^Next in \d+ s: Harbour S01E02/ });
    await next.waitFor();
    await showControls();
    await kit.assertPressable(next, "the next episode");
    await kit.assertPressable(page.getByRole("button", { name: "Cancel" }), "its refusal");
    await page.getByRole("button", { name: "Cancel" }).click();
    await waitUntil("it is refused", async () => (await page.locator(".suggestion button").count()) === 0);
  });

  await step("player-next-season", async () => {
    await kit.openScreen(episode("Season 1/Harbour S01E02"));
    await waitUntilPlaying("video");
    await kit.pressControl("Next", async () => /S02E01/.test(page.url()));
    await page.locator("h1").filter({ hasText: "Harbour S02E01" }).waitFor({ state: "attached" });
    await waitUntilPlaying("video");
  });
}

/** Mouse, keys, what is remembered, and the mini player. */
async function atDesk(kit, episode) {
  const { page, step, press, position, seek, waitUntilPlaying } = kit;
  const video = (read) => page.evaluate(read);
  const volume = () => page.evaluate(() => Math.round(100 * document.querySelector("video").volume));

  await step("player-keys", async () => {
    await kit.openScreen(episode("Season 1/Harbour S01E01"));
    await waitUntilPlaying("video");
    await press("5");
    await waitUntil("half of it", async () => (await position("video")) >= 25);
    await press("j");
    await waitUntil("ten seconds back", async () => (await position("video")) < 24);
    await press(">");
    await waitUntil("faster", async () => (await video(() => document.querySelector("video").playbackRate)) === 1.25);
    await press("<");
    await press("ArrowDown", "ArrowDown");
    await waitUntil("quieter", async () => (await volume()) === 90);
    await page.getByRole("status").filter({ hasText: "Volume 90 %" }).waitFor();
    await page.mouse.move(600, 300);
    await page.mouse.wheel(0, 100);
    await waitUntil("quieter by the wheel", async () => (await volume()) === 85);
    await press("m");
    await waitUntil("muted", () => video(() => document.querySelector("video").muted));
    await page.getByRole("button", { name: "Unmute" }).waitFor({ state: "attached" });
    await press("m");
    await press("c");
    await page.locator(".subtitles .cue").waitFor();
    await press("?");
    await page.getByText("Play or pause").waitFor();
    await kit.screenshot("player-shortcuts");
    await press("Escape");
    await press("k");
    await waitUntil("paused", () => video(() => document.querySelector("video").paused));
    await page.mouse.click(600, 300);
    await waitUntil("a click plays", () => video(() => !document.querySelector("video").paused));
    assert.equal(await page.evaluate(() => navigator.mediaSession.metadata.title), "Harbour S01E01");
  });

  await step("player-seek-bar", async () => {
    const bar = await page.locator(".seek-bar").boundingBox();
    await page.mouse.move(bar.x + bar.width * 0.6, bar.y + bar.height / 2);
    await page.locator(".hint").filter({ hasText: /The harbour0:(29|30|31)/ }).waitFor();
    await page.mouse.click(bar.x + bar.width * 0.4, bar.y + bar.height / 2);
    await waitUntil("a press on the bar seeks", async () => Math.abs((await position("video")) - 20) < 4);
  });

  await step("player-subtitle-look", async () => {
    await page.getByRole("button", { name: "Audio and subtitles" }).click();
    await page.getByText("Subtitle style").click();
    const size = () => page.locator(".subtitles").evaluate((element) => parseFloat(getComputedStyle(element).fontSize));
    const before = await size();
    await page.getByRole("radio", { name: "Very large" }).click();
    assert.ok((await size()) > 1.4 * before, "larger");
    await page.getByRole("radiogroup", { name: "Position" }).getByRole("radio", { name: "Top" }).click();
    const top = await page.locator(".subtitles .cue").evaluate((cue) => cue.getBoundingClientRect().bottom / innerHeight);
    assert.ok(top < 0.3, `at the top: ${top}`);
    for (let n = 0; n < 3; n += 1) await page.getByRole("button", { name: "Later" }).click();
    await page.getByText("+1.5 s").waitFor();
    await page.getByRole("radiogroup", { name: "Position" }).getByRole("radio", { name: "Bottom" }).click();
    await page.getByRole("radio", { name: "Medium" }).click();
    await press("Escape");
  });

  await step("player-remembers", async () => {
    await page.reload();
    await waitUntilPlaying("video");
    assert.equal(await volume(), 85);
    assert.equal(await kit.chosenOption("Subtitles"), "English", "the subtitles of the series");
  });

  // The library lists the file by now.
  await step("player-previews", async () => {
    const bar = await page.locator(".seek-bar").boundingBox();
    const image = page.locator(".seek-bar .preview img");
    const place = () => image.evaluate((element) => element.complete && element.naturalWidth > 0 && element.style.transform);
    const places = [];
    for (const fraction of [0.1, 0.3]) {
      await page.mouse.move(bar.x + bar.width * fraction, bar.y + bar.height / 2);
      await image.waitFor();
      await waitUntil("the sheet is shown", async () => Boolean(await place()) && !places.includes(await place()));
      places.push(await place());
    }
    await kit.screenshot("player-preview");
    await page.mouse.move(600, 200);
    await image.waitFor({ state: "hidden" });
  });

  await step("player-mini", async () => {
    await seek("video", 15);
    await kit.pressOverlayButton("Mini player");
    await page.locator("#menu").waitFor();
    await kit.goToScreen("library?kind=folders");
    await page.locator(".entry").first().waitFor();
    const mini = page.locator(".mini .player");
    await mini.waitFor();
    const before = await position("video");
    await waitUntil("it continues while one browses", async () => (await position("video")) > before + 0.5);
    await kit.assertPressable(mini.getByRole("button", { name: "Pause" }), "its pause button");
    await kit.screenshot("player-mini-shown");
    await mini.getByRole("link", { name: "Back to full player" }).click();
    await page.locator("#player:not(.mini) video").waitFor();
    assert.ok((await position("video")) > before, "the same film continues");
    await kit.pressOverlayButton("Mini player");
    await mini.getByRole("button", { name: "Stop and close" }).click();
    await waitUntil("it is gone", async () => (await page.locator("video").count()) === 0);
  });

  await step("player-next-season-by-key", async () => {
    await kit.goToScreen(episode("Season 1/Harbour S01E02"));
    await waitUntilPlaying("video");
    await page.getByRole("button", { name: "Next", exact: true }).waitFor({ state: "attached" });
    await press("n");
    await page.locator("h1").filter({ hasText: "Harbour S02E01" }).waitFor({ state: "attached" });
    await waitUntilPlaying("video");
    assert.match(page.url(), /S02E01/);
    await press("Escape");
  });
}
