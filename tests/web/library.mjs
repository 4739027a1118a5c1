// The library by kind, the pages of films and series, search, and home: with artwork and without, at four sizes.

import assert from "node:assert/strict";
import { waitUntil } from "./program.mjs";
import { atSizes } from "./sizes.mjs";

const MANY = 5000;

/** Tiles of a long wall that may be in the DOM. */
const MAX_TILES = 160;

const FILM_NFO = `<movie><title>Ember</title><year>2026</year><plot>A fire that no one lit, and three people who tend it.</plot><genre>Drama</genre><genre>Mystery</genre>
<director>Mira Holt</director><actor><name>Ada Lind</name><role>Nell</role></actor><actor><name>Jonas Pike</name><role>The warden</role></actor></movie>`;

/** A film with one of its actors. */
const SIMILAR_NFO = "<movie><title>Tides</title><actor><name>Ada Lind</name></actor></movie>";

/** A green image of 2 by 3 pixels. */
const IMAGE = `<svg xmlns="http://www.w3.org/2000/svg" width="160" height="240"><rect width="160" height="240" fill="#2a6"/></svg>`;

export async function library(kit, openPage) {
  const { page, server, step, press, waitUntilPlaying } = kit;
  for (const [n, name] of ["Season 1/Lantern S01E01", "Season 1/Lantern S01E02", "Season 2/Lantern S02E01"].entries()) {
    server.makeMedia(`Series/Lantern/${name}.mp4`, ["-f", "lavfi", "-i", `testsrc2=s=320x180:r=10:d=${20 + n}`, "-f", "lavfi", "-i", `sine=${400 + n}:d=${20 + n}`,
      "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", "-movflags", "+faststart"]);
  }
  server.writeMedia("Films/Ember (2026).nfo", FILM_NFO);
  server.writeMedia("Films/Tides (2026).nfo", SIMILAR_NFO);
  await kit.waitForItem("Lantern S02E01.mp4");
  await waitUntil("the catalogue has the plot", async () => (await kit.waitForItem("Ember (2026).mp4")).genres.includes("Mystery"));

  await step("library-films", async () => {
    await kit.openScreen("library");
    const tiles = page.locator(".tiles .tile");
    await tiles.first().waitFor();
    assert.deepEqual((await tiles.locator("> .title").allTextContents()).slice(0, 3), ["Ember", "Night Train", "Tides"], "titles instead of file names");
    await page.getByRole("combobox", { name: "Genre" }).selectOption("Mystery");
    await page.getByText("1 film", { exact: true }).waitFor();
    await page.reload();
    await page.getByText("1 film", { exact: true }).waitFor();
    await page.getByRole("combobox", { name: "Genre" }).selectOption("");
    await page.getByRole("combobox", { name: "Watched" }).selectOption("watched");
    await page.getByText("Nothing matches these filters.").or(page.locator(".badge.watched").first()).waitFor();
    await page.getByRole("combobox", { name: "Watched" }).selectOption("");
    await page.getByRole("link", { name: "Folders" }).click();
    await page.locator(".entry").first().waitFor();
  });

  await step("library-film-with-chosen-tracks", async () => {
    await kit.goToScreen("library?kind=film");
    await page.locator(".tile").filter({ hasText: "Tides" }).click();
    await page.getByRole("heading", { name: "Tides" }).waitFor();
    const audio = page.getByLabel("Audio");
    await audio.focus();
    const chosen = await audio.inputValue();
    await press("ArrowDown");
    assert.ok((await audio.inputValue()) === chosen && (await kit.getFocused()).tag !== "SELECT", "an arrow leads past the tracks and changes none");
    await page.getByLabel("Audio").selectOption({ label: "German · mono" });
    await page.getByLabel("Subtitles").selectOption({ label: "German" });
    await page.locator(".actions a").last().click();
    await waitUntilPlaying("video");
    assert.deepEqual([await kit.chosenOption("Audio"), await kit.chosenOption("Subtitles")], ["German · mono", "German"]);
    await press("Escape");
    await page.getByRole("heading", { name: "Tides" }).waitFor();
    await page.getByLabel("Audio").selectOption({ index: 0 });
    await page.getByLabel("Subtitles").selectOption({ label: "Off" });
    kit.assertClean();
  });

  await step("library-watched", async () => {
    const lantern = await kit.waitForItem("Lantern S01E01.mp4");
    await kit.api("POST", "/api/stream/progress/watched", { mediaPath: lantern.mediaPath });
    await kit.goToScreen("library?kind=series");
    const tile = page.locator(".tile").filter({ hasText: "Lantern" });
    await tile.locator(".badge").filter({ hasText: "2" }).waitFor();
    await tile.click();
    await page.getByRole("link", { name: "Continue S1 E2" }).waitFor();
    await page.getByRole("button", { name: "Season 2" }).click();
    await page.locator(".episode").filter({ hasText: "S2 E1" }).waitFor();
    await page.locator(".episode-text").first().click();
    await page.locator(".way").filter({ hasText: "Lantern · S2 E1" }).waitFor();
    await page.goBack();
    await page.locator(".episode").filter({ hasText: "S2 E1" }).waitFor(); // The chosen season is kept.
    await page.getByRole("link", { name: "Continue S1 E2" }).click();
    await waitUntilPlaying("video");
    assert.match(page.url(), /S01E02/);
    await press("Escape");
  });

  await step("library-audiobook", async () => {
    await kit.goToScreen("library?kind=audiobook");
    const book = page.locator(".tile").filter({ hasText: "By the Fire" });
    assert.match(await book.getAttribute("href"), /^#\/book\?/, "an m4b opens as an audiobook");
  });

  await step("library-artists", async () => {
    await kit.goToScreen("library?kind=artist");
    const artist = page.locator(".tile").first();
    const name = await artist.locator(".title").textContent();
    await artist.click();
    await page.getByRole("heading", { name }).waitFor();
    await page.locator(".tile").first().click();
    await page.locator(".item-facts a").filter({ hasText: name }).click();
    await page.getByRole("heading", { name }).waitFor();
    await press("Escape");
  });

  await step("search-everything", async () => {
    await kit.openScreen("");
    await page.locator(".tile").first().waitFor();
    await press("/");
    await page.keyboard.type("lanter ada", { delay: 20 });
    await page.getByText("No results for “lanter ada”.").waitFor();
    await page.getByRole("searchbox").fill("lind");
    await page.locator("[data-row=people] .chip").filter({ hasText: "Ada Lind" }).click();
    await page.getByRole("heading", { name: "Ada Lind" }).waitFor();
    await page.locator(".tile").filter({ hasText: "Ember" }).waitFor();
    await page.getByRole("searchbox").fill("lantern");
    await page.locator("[data-row=series] .tile").filter({ hasText: "Lantern" }).waitFor();
    await press("ArrowDown");
    assert.match((await kit.getFocused()).text, /Lantern/, "an arrow leads from the field to the results");
    await press("Enter");
    await page.getByRole("heading", { name: "Lantern" }).waitFor();
    await press("Escape");
    await page.locator("[data-row=series] .tile").first().waitFor();
    assert.equal(await page.getByRole("searchbox").inputValue(), "lantern");
  });
  kit.assertClean();
  await imagesNearTheWindow(kit);

  const ember = await kit.waitForItem("Ember (2026).mp4");
  await kit.api("POST", "/api/stream/progress", { mediaPath: ember.mediaPath, positionSeconds: 20, durationSeconds: 60 });
  await atSizes(kit, openPage, (sized) => atSize(sized, ember));
}

/** Posters that the server makes for minutes: at most three are requested at a time, those near the window, and none after the screen is left. */
async function imagesNearTheWindow({ page, step, goToScreen, faults }) {
  await step("library-images-near-the-window", async () => {
    const held = new Map(); // Requests that are not answered, by their address.
    let most = 0;
    const slow = /\/art\/slow/;
    const end = (request) => held.delete(request.url());
    page.on("requestfailed", end);
    page.on("requestfinished", end);
    await page.route(slow, (route) => {
      held.set(route.request().url(), route);
      most = Math.max(most, held.size);
    });
    await page.route(/\/api\/library\/items\?.*kind=film/, (route) => {
      const films = pageOfFilms(new URL(route.request().url()));
      for (const [n, item] of films.items.entries()) item.artwork = { poster: `/art/slow?film=${n}` };
      return route.fulfill({ json: films });
    });
    await goToScreen("library?kind=film");
    await waitUntil("three are requested", () => held.size === 3);
    const [first, route] = [...held.entries()][0];
    await route.fulfill({ contentType: "image/svg+xml", body: IMAGE });
    await waitUntil("another follows", () => held.size === 3 && !held.has(first));
    assert.equal(most, 3);
    const before = [...held.keys()];
    await page.evaluate(() => scrollTo(0, 20_000));
    await waitUntil("those out of view are given up for those in view", () => held.size === 3 && !before.some((address) => held.has(address)));
    await goToScreen("settings");
    await waitUntil("none is requested after the screen is left", () => held.size === 0);
    await page.unroute(slow);
    await page.unroute(/\/api\/library\/items\?.*kind=film/);
    page.off("requestfailed", end);
    page.off("requestfinished", end);
    faults.length = 0;
  });
}

/** What every size must offer. */
async function atSize(kit, ember) {
  const { page, step, pressLocator: press } = kit;

  await step("home-hero", async () => {
    await page.goto(kit.server.base);
    const resume = page.locator(".hero .primary");
    await resume.waitFor();
    await kit.assertPressable(resume, "Resume");
    await kit.assertPressable(page.locator(".hero .button").nth(1), "Details");
    await kit.screenshot("home-hero-shown");
    await kit.assertNoSidewaysScroll();
    await press(page.locator(".hero .button").nth(1));
    await page.locator(".item h1").waitFor();
  });

  await step("item", async () => {
    await kit.goToScreen(`item?id=${ember.id}`).catch(() => {});
    await page.getByRole("heading", { name: "Ember", exact: true }).waitFor();
    await kit.assertPressable(page.locator(".actions .primary"), "Resume");
    await page.locator(".media-info").waitFor();
    await page.getByText("A fire that no one lit").waitFor();
    await kit.assertNoSidewaysScroll();
    await kit.screenshot("item-shown");
    await page.getByRole("heading", { name: "More like this" }).waitFor();
    await press(page.locator(".tile").filter({ hasText: "Tides" }).last());
    await page.getByRole("heading", { name: "Tides", exact: true }).waitFor();
  });

  await step("library-of-many", async () => {
    await page.route(/\/api\/library\/items\?.*kind=film/, (route) => route.fulfill({ json: pageOfFilms(new URL(route.request().url())) }));
    await page.route(/\/art\/good/, (route) => route.fulfill({ contentType: "image/svg+xml", body: IMAGE }));
    await page.route(/\/art\/lost/, (route) => route.fulfill({ contentType: "image/svg+xml", body: "no image" }));
    await kit.goToScreen("library?kind=film&sort=title");
    await page.getByText(`${MANY.toLocaleString("en")} films`).waitFor();
    const [first, second] = [page.locator(".tiles .tile").nth(0), page.locator(".tiles .tile").nth(1)];
    await waitUntil("the poster is drawn", () => first.locator("img").evaluate((image) => image.complete && image.naturalWidth > 0));
    assert.match(await first.locator("img").evaluate((image) => image.currentSrc), /[?&]width=\d+/);
    await waitUntil("the title takes the place of a broken image", async () => (await second.locator("img").count()) === 0 && await second.locator(".art-title").isVisible());
    await waitUntil("all are loaded", () => page.evaluate(() => document.querySelectorAll(".skeleton").length === 0));
    const columns = await page.locator(".tiles").evaluate((list) => getComputedStyle(list).gridTemplateColumns.split(" ").length);
    assert.ok(columns >= (page.viewportSize().width < 500 ? 3 : 4), `${columns} columns`);
    const letter = page.getByRole("button", { name: "M", exact: true });
    if (await letter.isVisible()) {
      await kit.pressVisible(letter, "a letter");
      await waitUntil("the first title with M is at the top", () => page.evaluate(() => {
        const tile = document.elementFromPoint(innerWidth / 2, 120)?.closest(".tile, li");
        return scrollY > 1000 && /^[LM] /.test(tile?.querySelector(".title")?.textContent ?? "");
      }));
    } else {
      assert.equal(kit.size, "side", "the letters fit all other sizes");
      await page.evaluate(() => window.scrollTo(0, 5000));
    }
    await page.evaluate(() => window.scrollBy(0, 137));
    await page.locator(".tiles .tile").filter({ visible: true }).first().waitFor();
    const count = await page.locator(".tiles .tile").count();
    assert.ok(count <= MAX_TILES, `${count} tiles in the DOM`);
    await kit.screenshot("library-of-many-shown");
    const before = await page.evaluate(() => scrollY);
    const index = await page.locator(".tiles .tile").evaluateAll((all) => all.findIndex((tile) => tile.getBoundingClientRect().top > 60));
    await page.route(/\/api\/library\/items\/f_/, (route) => route.fulfill({ json: { item: pageOfFilms(new URL("x://x?")).items[0], description: null, technical: null, mediaPaths: [], hasChosenTitle: false, items: [] } }));
    await page.route(/\/api\/stream\/info\/full/, (route) => route.abort());
    await page.locator(".tiles .tile").nth(index).evaluate((link) => link.click());
    await page.locator(".item h1").waitFor();
    await page.goBack();
    await waitUntil("the same place", () => page.evaluate((before) => scrollY === before && document.querySelector(".tiles .tile .title") !== null, before));
    await kit.assertNoSidewaysScroll();
    kit.faults.length = 0; // The requests that failed on purpose.
  });
}

/** A page of many films: the first with a poster, the second with one that is broken. */
export function pageOfFilms({ searchParams }) {
  const [from, limit] = [Number(searchParams.get("cursor") ?? 0), Number(searchParams.get("limit") ?? 50)];
  const items = Array.from({ length: Math.min(limit, MANY - from) }, (_, n) => {
    const number = from + n;
    const title = `${String.fromCharCode(65 + Math.floor((number * 26) / MANY))} film ${String(number).padStart(4, "0")}`;
    const artwork = number === 0 ? { poster: "/art/good?v=1" } : number === 1 ? { poster: "/art/lost?v=1" } : undefined;
    return { id: `f_${number.toString(16).padStart(32, "0")}`, kind: "film", mediaPath: `/many/${title}.mkv`, title, sortTitle: title, year: 1960 + (number % 60),
      seriesId: null, seriesTitle: null, season: null, episode: null, lastEpisode: null, artist: null, album: null, disc: null, track: null, releasedOn: null,
      genres: [], durationSeconds: 5400, sizeBytes: 1, addedAt: "2026-01-01T00:00:00Z", watched: number % 5 === 0, progress: null, artwork };
  });
  return { items, total: MANY, nextCursor: from + limit < MANY ? String(from + limit) : null, scanning: false };
}
