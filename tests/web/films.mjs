// Folders and films: direct play, conversion, other audio, subtitles, resume.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { waitUntil } from "./program.mjs";

/** An ASS subtitle with a style and a position. */
/** A film that does not end before libass is ready, however busy the machine is. */
const BLUE_VIDEO = "color=c=0x205080:s=640x360:r=5:d=300";

/** One line in the upper left corner, as long as the film. */
const STYLED_SUBTITLE = `[Script Info]
ScriptType: v4.00+
PlayResX: 640
PlayResY: 360

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding
Style: Sign,Arial,48,&H000000FF,&H000000FF,&H00FFFFFF,&H00000000,-1,0,0,0,100,100,0,0,1,2,0,7,20,20,20,1

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:00.00,0:05:00.00,Sign,,0,0,0,,{\\pos(20,20)}HEARTH
`;

export async function films(kit) {
  const { page, server, requests, faults, step, waitUntilPlaying, waitForCue, position, sessionIds, seek, press, chooseOption } = kit;
  /** Red pixels of the subtitle canvas, scaled to 320x180: inside and outside the upper left corner, and the rightmost. */
  const findRedPixels = () => page.evaluate(() => {
    const found = { corner: 0, outside: 0, right: 0 };
    const overlayCanvas = document.querySelector(".libassjs-canvas-parent canvas");
    if (!overlayCanvas?.width) return found;
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [320, 180];
    const context = canvas.getContext("2d");
    context.drawImage(overlayCanvas, 0, 0, 320, 180);
    const { data } = context.getImageData(0, 0, 320, 180);
    for (let n = 0; n < 320 * 180; n += 1) {
      const [r, g, b, a] = data.slice(4 * n, 4 * n + 4);
      if (!(a > 200 && r > 200 && g < 60 && b < 60)) continue;
      found[n % 320 < 160 && n / 320 < 90 ? "corner" : "outside"] += 1;
      found.right = Math.max(found.right, n % 320);
    }
    return found;
  });
  const openFilm = (name) => page.getByRole("link", { name, exact: true }).or(page.getByRole("link", { name: new RegExp(`^${name}.*B$`) })).first().click();
  const back = async () => {
    await press("Escape");
    await page.locator(".entry").first().waitFor();
  };

  await step("folders", async () => {
    await kit.openFolder("Films");
    await page.getByRole("link", { name: /^Ember/ }).waitFor();
    assert.equal(await page.locator(".entry").count(), 3);
  });

  await step("file", async () => {
    await page.getByRole("link", { name: "Details: Tides (2026)" }).click();
    await page.getByText("Media info").click();
    await page.getByText("Will be converted").waitFor();
    await page.getByText(/ac3 .* English/).waitFor();
    await page.getByRole("button", { name: "Mark as watched" }).click();
    await page.getByRole("button", { name: "Mark as unwatched" }).click();
    await page.getByRole("button", { name: "Mark as watched" }).waitFor();
    await page.goBack();
  });

  await step("film-direct-play", async () => {
    await openFilm("Ember");
    await waitUntilPlaying("video");
    await page.getByText("Direct play", { exact: true }).waitFor({ state: "attached" });
    assert.equal(sessionIds().length, 0, "direct play needs no session");
  });

  await step("film-by-remote", async () => {
    await waitUntil("the overlay hides", () => page.locator(".player.idle").count());
    const before = await position("video");
    await press("ArrowRight");
    await waitUntil("the key seeks 30 s forward", async () => (await position("video")) >= before + 29);
    await press("Enter");
    assert.equal((await kit.getFocused()).text, "Pause");
    await press("Enter");
    await waitUntil("the video is paused", () => page.evaluate(() => document.querySelector("video").paused));
    await press("Enter");
    await waitUntilPlaying("video", 20);
    await page.locator(".frame").evaluate((frame) => frame.dispatchEvent(new PointerEvent("click", { pointerType: "touch", bubbles: true })));
    assert.ok(!(await page.evaluate(() => document.querySelector("video").paused)), "a tap must not pause");
  });

  await step("film-sidecar-subtitle", async () => {
    await chooseOption("Subtitles", "English");
    await waitForCue("A fire, and nothing to hurry for.", 3);
  });

  await step("film-seek-and-playback-info", async () => {
    await seek("video", 34);
    await waitUntilPlaying("video", 34);
    await press("i");
    await page.getByText("Dropped frames").waitFor();
    await press("i");
  });

  await step("film-alone", async () => {
    await seek("video", 45);
    await waitUntilPlaying("video", 45);
    assert.equal(await page.locator(".suggestion button").count(), 0, "unrelated films of a folder do not follow each other");
    await seek("video", 30);
  });

  await back();
  await step("film-audio-converted", async () => {
    await openFilm("Tides");
    await waitUntilPlaying("video");
    await page.getByText(/Converting audio \(.*audio format/).waitFor({ state: "attached" });
    assert.equal(sessionIds().length, 1);
  });

  await step("film-other-audio-at-the-same-position", async () => {
    await seek("video", 30);
    await waitUntilPlaying("video", 30);
    await chooseOption("Audio", "German · mono");
    await waitUntil("the other audio is loaded", () => requests.some((line) => /\/a1-\d+\.m4s/.test(line)));
    await waitUntilPlaying("video", 30);
    assert.ok((await position("video")) < 45, "another audio track continues at the same position");
    assert.equal(sessionIds().length, 1, "within the session");
  });

  await step("film-embedded-subtitle", async () => {
    await chooseOption("Subtitles", "German");
    await waitForCue("Bleib, so lange du magst.", 43);
  });

  await back();
  await step("film-all-converted", async () => {
    await openFilm("Night Train");
    await waitUntilPlaying("video");
    await page.getByText(/Converting video/).waitFor({ state: "attached" });
  });
  await step("film-while-the-server-is-away", async () => {
    const [sessions, segments] = [sessionIds().length, /\/transcode\/ts_.*\.(m4s|ts)/];
    let refused = 0;
    await page.route(segments, (route) => {
      refused += 1;
      return route.abort("connectionrefused");
    });
    await seek("video", 40);
    await waitUntil("segments are requested again", () => refused >= 6);
    await page.unroute(segments);
    await waitUntilPlaying("video", 40);
    assert.equal(sessionIds().length, sessions, "within the session");
    faults.splice(0, faults.length, ...faults.filter((fault) => !/ERR_CONNECTION_REFUSED/.test(fault)));
  });
  await back();
  await waitUntil("every session is stopped", () => {
    const stops = requests.filter((line) => /^(DELETE|POST) .*\/transcode\/ts_[^/]+(\/stop.*)?$/.test(line));
    return stops.length >= sessionIds().length;
  });

  await step("film-waits-for-its-turn", async () => {
    // Viewers take turns in the encode slots, so the server has one here; tests/it/livetv/encode_turns.rs and
    // src/service/sessions/tests.rs test its refusal. Here a mocked refusal reaches the page until `busy` is cleared.
    const refusal = { error: "all encode slots are in use", code: "TRANSCODER_BUSY", details: { active: 1, max: 1 }, requestId: "-" };
    let busy = true;
    const start = "**/api/stream/transcode/start";
    await page.route(start, (route) =>
      busy ? route.fulfill({ status: 503, headers: { "retry-after": "1" }, json: refusal }) : route.continue());
    await openFilm("Night Train");
    await page.getByText("Yours starts when they finish").waitFor();
    busy = false;
    await waitUntilPlaying("video");
    await page.getByText(/Converting video/).waitFor({ state: "attached" });
    await page.unroute(start);
  });
  await back();

  await step("film-other-audio-while-preparing", async () => {
    // As above, the start is refused until `busy` is cleared, so the audio is chosen before anything is loaded.
    const refusal = { error: "all encode slots are in use", code: "TRANSCODER_BUSY", details: { active: 1, max: 1 }, requestId: "-" };
    let busy = true;
    const positions = []; // Of the starts with the other audio.
    const start = "**/api/stream/transcode/start";
    await page.route(start, (route) => {
      const { startPositionSeconds, audioStreamIndex } = route.request().postDataJSON();
      if (audioStreamIndex !== undefined) positions.push(startPositionSeconds);
      return busy ? route.fulfill({ status: 503, headers: { "retry-after": "1" }, json: refusal }) : route.continue();
    });
    await kit.openScreen(`play?${new URLSearchParams({ path: `${server.media}/Films/Tides (2026).mkv`, at: 30 })}`);
    await page.getByText("Yours starts when they finish").waitFor();
    await chooseOption("Audio", "German · mono");
    await waitUntil("a start with the other audio", () => positions.length > 0);
    assert.equal(positions[0], 30, "the position is kept");
    busy = false;
    await waitUntilPlaying("video", 29);
    await page.unroute(start);
  });

  await step("film-styled-subtitle", async () => {
    server.makeMedia("Other/Styled.mp4", ["-f", "lavfi", "-i", BLUE_VIDEO, "-f", "lavfi", "-i", "sine=440:d=300",
      "-c:v", "libx264", "-pix_fmt", "yuv420p", "-c:a", "aac", "-movflags", "+faststart"]);
    server.writeMedia("Other/Styled.en.ass", STYLED_SUBTITLE);
    await kit.openScreen(`play?${new URLSearchParams({ path: `${server.media}/Other/Styled.mp4` })}`);
    await waitUntil("the video plays", async () => (await position("video")) > 0);
    assert.ok(!requests.some((line) => line.includes("/vendor/ass")), "libass must not be loaded before it is needed");
    await chooseOption("Subtitles", "English");
    const pixels = await waitUntil("red letters in the upper left corner", () => findRedPixels().then((found) => found.corner > 100 && found));
    assert.equal(pixels.outside, 0, "a line is at its own position");
  });
  await step("film-styled-subtitle-with-its-own-font", async () => {
    const [file, family] = execFileSync("fc-match", ["-f", "%{file}\n%{family[0]}", "monospace"], { encoding: "utf8" }).split("\n");
    // Narrow letters are wide only in a monospace font.
    server.writeMedia("Other/Fonts.ass", STYLED_SUBTITLE.replace(",Arial,", `,${family},`).replace("HEARTH", "iiiiiiiiii"));
    server.makeMedia("Other/Fonts.mkv", ["-f", "lavfi", "-i", BLUE_VIDEO, "-f", "lavfi", "-i", "sine=440:d=300",
      "-i", `${server.media}/Other/Fonts.ass`, "-attach", file, "-metadata:s:t", "mimetype=application/x-truetype-font",
      "-map", "0", "-map", "1", "-map", "2", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-c:a", "aac", "-c:s", "ass"]);
    await kit.openScreen(`play?${new URLSearchParams({ path: `${server.media}/Other/Fonts.mkv` })}`);
    await waitUntil("the video plays", async () => (await position("video")) > 0);
    await chooseOption("Subtitles", "Subtitles 1");
    const rightEdge = await waitUntil("letters", () => findRedPixels().then((found) => found.corner > 60 && found.right));
    // About 55 pixels in the default font; 114 in Noto Sans Mono and 130 in DejaVu Sans Mono.
    assert.ok(rightEdge > 90, `ten letters of ${family} must be wider: ${rightEdge} of 320`);
    assert.ok(requests.some((line) => line.includes("/api/stream/attachment?")), "the font must be loaded from the film");
  });
  await step("film-styled-subtitle-without-libass", async () => {
    await page.route("**/web/vendor/subtitles-octopus-worker.wasm", (route) => route.abort());
    await page.reload();
    await waitUntil("the video plays", async () => (await position("video")) > 0);
    await chooseOption("Subtitles", "Subtitles 1");
    await waitForCue("iiiiiiiiii", 3);
    await page.unroute("**/web/vendor/subtitles-octopus-worker.wasm");
    await page.reload();
    await waitUntil("the video plays", async () => (await position("video")) > 0);
    faults.splice(0, faults.length, ...faults.filter((fault) => !/wasm|WebAssembly|ERR_FAILED/i.test(fault)));
    await chooseOption("Subtitles", "Subtitles 1");
    await waitUntil("red letters again", () => findRedPixels().then((found) => found.corner > 60));
  });
  await step("film-styled-subtitle-off", async () => {
    await chooseOption("Subtitles", "Off");
    await waitUntil("the canvas is removed", async () => (await page.locator(".libassjs-canvas-parent").count()) === 0);
  });
  await kit.openScreen(`library?${new URLSearchParams({ path: `${server.media}/Films` })}`);
  await page.locator(".entry").first().waitFor();

  await step("film-resumes", async () => {
    await openFilm("Ember");
    await waitUntilPlaying("video");
    await seek("video", 20);
    await waitUntilPlaying("video", 20);
    const saves = () => requests.filter((line) => /^POST .*\/api\/stream\/progress$/.test(line)).length;
    const before = saves();
    await page.evaluate(() => document.querySelector("video").pause());
    await waitUntil("the page saved the position", () => saves() > before);
    await page.reload();
    await waitUntilPlaying("video", 19.9);
    assert.ok((await position("video")) < 29, "a reload resumes at the position");
  });
}
