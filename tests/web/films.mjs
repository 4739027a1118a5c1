// The library and films: as they are, converted, with other sound, subtitles; what was begun goes on.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { until } from "./program.mjs";

/** A subtitle that says how it looks and where it stands. */
const STYLED = `[Script Info]
ScriptType: v4.00+
PlayResX: 640
PlayResY: 360

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding
Style: Sign,Arial,48,&H000000FF,&H000000FF,&H00FFFFFF,&H00000000,-1,0,0,0,100,100,0,0,1,2,0,7,20,20,20,1

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:00.00,0:00:20.00,Sign,,0,0,0,,{\\pos(20,20)}HEARTH
`;

export async function films(kit) {
  const { page, server, asked, faults, step, playing, cue, position, sessions, go, press, choose } = kit;
  /** Red in what is drawn over the picture, on 320 by 180: how much, and how far to the right. */
  const red = () => page.evaluate(() => {
    const found = { corner: 0, elsewhere: 0, right: 0 };
    const drawing = document.querySelector(".libassjs-canvas-parent canvas");
    if (!drawing?.width) return found;
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [320, 180];
    const context = canvas.getContext("2d");
    context.drawImage(drawing, 0, 0, 320, 180);
    const { data } = context.getImageData(0, 0, 320, 180);
    for (let n = 0; n < 320 * 180; n += 1) {
      const [r, g, b, a] = data.slice(4 * n, 4 * n + 4);
      if (!(a > 200 && r > 200 && g < 60 && b < 60)) continue;
      found[n % 320 < 160 && n / 320 < 90 ? "corner" : "elsewhere"] += 1;
      found.right = Math.max(found.right, n % 320);
    }
    return found;
  });
  const open = (name) => page.getByRole("link", { name, exact: true }).or(page.getByRole("link", { name: new RegExp(`^${name}.*B$`) })).first().click();
  const back = async () => {
    await press("Escape");
    await page.locator(".entry").first().waitFor();
  };

  await step("library", async () => {
    await kit.screen("library");
    await page.getByRole("link", { name: /media|demo/i }).click();
    await page.getByRole("link", { name: "Films" }).click();
    await page.getByRole("link", { name: /^Ember/ }).waitFor();
    assert.equal(await page.locator(".entry").count(), 3);
  });

  await step("file", async () => {
    await page.getByRole("link", { name: "Details: Tides (2026)" }).click();
    await page.getByText("Is converted while it plays").waitFor();
    await page.getByText(/ac3 .* English/).waitFor();
    await page.getByRole("button", { name: "Mark as watched" }).click();
    await page.getByRole("button", { name: "Forget where I am" }).click();
    await page.getByRole("button", { name: "Mark as watched" }).waitFor();
    await page.getByRole("link", { name: "Back to the folder" }).click();
  });

  await step("film-as-it-is", async () => {
    await open("Ember");
    await playing("video");
    await page.getByText("Playing the file as it is.").waitFor({ state: "attached" });
    assert.equal(sessions().length, 0, "a direct file needs no session");
  });

  await step("film-by-remote", async () => {
    await until("what lies over the picture goes away", () => page.locator(".player.idle").count());
    const before = await position("video");
    await press("ArrowRight");
    await until("a press moves on by 30 s", async () => (await position("video")) >= before + 29);
    await press("Enter");
    assert.equal((await kit.focused()).text, "Pause");
    await press("Enter");
    await until("it pauses", () => page.evaluate(() => document.querySelector("video").paused));
    await press("Enter");
    await playing("video", 20);
  });

  await step("film-sidecar-subtitle", async () => {
    await choose("Subtitles", "English");
    await cue("A fire, and nothing to hurry for.", 3);
  });

  await step("film-seek-and-figures", async () => {
    await go("video", 34);
    await playing("video", 34);
    await press("i");
    await page.getByText("Frames dropped").waitFor();
    await press("i");
  });

  await step("film-next", async () => {
    await go("video", 45);
    await page.getByRole("button", { name: /^Next: Night Train/ }).waitFor();
    await go("video", 30);
    await until("the offer goes", async () => (await page.locator(".offer button").count()) === 0);
  });

  await back();
  await step("film-sound-converted", async () => {
    await open("Tides");
    await playing("video");
    await page.getByText(/sound converted, because .* its sound format/).waitFor({ state: "attached" });
    assert.equal(sessions().length, 1);
  });

  await step("film-other-sound-at-the-same-moment", async () => {
    await go("video", 30);
    await playing("video", 30);
    await choose("Sound", "German · mono");
    await until("a second session", () => sessions().length === 2);
    await playing("video", 29);
    assert.ok((await position("video")) < 45, "another sound track goes on where the first one was");
  });

  await step("film-embedded-subtitle", async () => {
    await choose("Subtitles", "German");
    await cue("Bleib, so lange du magst.", 43);
  });

  await back();
  await step("film-all-converted", async () => {
    await open("Night Train");
    await playing("video");
    await page.getByText(/picture converted/).waitFor({ state: "attached" });
  });
  await back();
  await until("every session was stopped", () => {
    const stops = asked.filter((line) => /^(DELETE|POST) .*\/transcode\/ts_[^/]+(\/stop.*)?$/.test(line));
    return stops.length >= sessions().length;
  });

  await step("film-waits-for-its-turn", async () => {
    // Viewers share the encode slots by turns, so there is room here; that the server refuses one too many is tested in
    // tests/it/livetv/turns.rs and src/service/sessions/tests.rs. Here its refusal reaches the page until one session ends.
    const refusal = { error: "all encode slots are in use", code: "TRANSCODER_BUSY", details: { active: 1, max: 1 }, requestId: "-" };
    let busy = true;
    const start = "**/api/stream/transcode/start";
    await page.route(start, (route) =>
      busy ? route.fulfill({ status: 503, headers: { "retry-after": "1" }, json: refusal }) : route.continue());
    await open("Night Train");
    await page.getByText("The server converts 1 of 1 at once already").waitFor();
    busy = false;
    await playing("video");
    await page.getByText(/picture converted/).waitFor({ state: "attached" });
    await page.unroute(start);
  });
  await back();

  await step("film-styled-subtitle", async () => {
    server.make("Other/Styled.mp4", ["-f", "lavfi", "-i", "color=c=0x205080:s=640x360:r=25:d=20", "-f", "lavfi", "-i", "sine=440:d=20",
      "-c:v", "libx264", "-pix_fmt", "yuv420p", "-c:a", "aac", "-movflags", "+faststart"]);
    server.write("Other/Styled.en.ass", STYLED);
    await kit.screen(`play?${new URLSearchParams({ path: `${server.media}/Other/Styled.mp4` })}`);
    await until("it plays", async () => (await position("video")) > 0);
    assert.ok(!asked.some((line) => line.includes("/vendor/ass")), "nothing draws before it is needed");
    await choose("Subtitles", "English");
    const drawn = await until("red letters in the upper left corner", () => red().then((found) => found.corner > 100 && found));
    assert.equal(drawn.elsewhere, 0, "a line stands where it says");
  });
  await step("film-styled-subtitle-with-its-own-font", async () => {
    const [file, family] = execFileSync("fc-match", ["-f", "%{file}\n%{family[0]}", "monospace"], { encoding: "utf8" }).split("\n");
    // Narrow letters, which take much room only in a font that gives every letter the same.
    server.write("Other/Fonts.ass", STYLED.replace(",Arial,", `,${family},`).replace("HEARTH", "iiiiiiiiii"));
    server.make("Other/Fonts.mkv", ["-f", "lavfi", "-i", "color=c=0x205080:s=640x360:r=25:d=20", "-f", "lavfi", "-i", "sine=440:d=20",
      "-i", `${server.media}/Other/Fonts.ass`, "-attach", file, "-metadata:s:t", "mimetype=application/x-truetype-font",
      "-map", "0", "-map", "1", "-map", "2", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-c:a", "aac", "-c:s", "ass"]);
    await kit.screen(`play?${new URLSearchParams({ path: `${server.media}/Other/Fonts.mkv` })}`);
    await until("it plays", async () => (await position("video")) > 0);
    await choose("Subtitles", "Subtitles 1");
    const wide = await until("letters", () => red().then((found) => found.corner > 60 && found.right));
    assert.ok(wide > 120, `ten letters of ${family} reach to ${wide} of 320`);
    assert.ok(asked.some((line) => line.includes("/api/stream/attachment?")), "the font came with the film");
  });
  await step("film-styled-subtitle-that-cannot-be-drawn", async () => {
    await page.route("**/web/vendor/subtitles-octopus-worker.wasm", (route) => route.abort());
    await page.reload();
    await until("it plays", async () => (await position("video")) > 0);
    await choose("Subtitles", "Subtitles 1");
    await cue("iiiiiiiiii", 3);
    await page.unroute("**/web/vendor/subtitles-octopus-worker.wasm");
    faults.splice(0, faults.length, ...faults.filter((fault) => !/wasm|WebAssembly|ERR_FAILED/.test(fault)));
    await page.reload();
    await until("it plays", async () => (await position("video")) > 0);
    await choose("Subtitles", "Subtitles 1");
    await until("drawn again", () => red().then((found) => found.corner > 60));
  });
  await step("film-styled-subtitle-off", async () => {
    await choose("Subtitles", "Off");
    await until("what drew it is gone", async () => (await page.locator(".libassjs-canvas-parent").count()) === 0);
  });
  await kit.screen(`library?${new URLSearchParams({ path: `${server.media}/Films` })}`);
  await page.locator(".entry").first().waitFor();

  await step("film-goes-on-where-it-was", async () => {
    await open("Ember");
    await playing("video");
    await go("video", 20);
    await playing("video", 20);
    const saves = () => asked.filter((line) => /^POST .*\/api\/stream\/progress$/.test(line)).length;
    const before = saves();
    await page.evaluate(() => document.querySelector("video").pause());
    await until("the page told how far it is", () => saves() > before);
    await page.reload();
    await playing("video", 19.9);
    assert.ok((await position("video")) < 29, "a reload goes on where it was");
  });

  await step("library-search", async () => {
    await kit.screen("library");
    await page.getByRole("searchbox").fill("night");
    await page.getByRole("link", { name: /^Night Train/ }).waitFor();
    await page.getByText("1 found").waitFor();
  });
}
