// The page in German, and the change of the language in the settings.

import assert from "node:assert/strict";
import { PASSWORD, NAME } from "./kit.mjs";

/** English words of the tables that must not be seen, unless German has the same. */
const readEnglish = (page) => page.evaluate(async () => {
  const load = async (language) => {
    const tables = await Promise.all(["", "-settings"].map((part) => import(new URL(`web/language/${language}${part}.js`, document.baseURI))));
    const strings = (value) => (typeof value === "string" ? [value] : typeof value === "object" && value ? Object.values(value).flatMap(strings) : []);
    return tables.flatMap((table) => strings({ ...table }));
  };
  const german = new Set(await load("de"));
  return (await load("en")).filter((text) => text.length > 2 && !german.has(text));
});

/** All texts and labels that the page shows. */
const readShown = (page) => page.evaluate(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const shown = [document.title];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) if (!node.parentElement.closest("[lang=en], noscript, .log")) shown.push(node.data.trim());
  for (const element of document.querySelectorAll("[aria-label], [title], [placeholder]")) shown.push(element.getAttribute("aria-label"), element.getAttribute("title"), element.getAttribute("placeholder"));
  return [...new Set(shown.filter(Boolean))];
});

const SCREENS = ["", "library?kind=film", "library?kind=folders", "search?q=the", "guide", "settings", "settings?tab=tokens", "settings?tab=devices", "settings?tab=account",
  "recordings", "settings?tab=channels", "settings?tab=channels&channel=new", "settings?tab=sources", "settings?tab=users", "settings?tab=playing",
  "settings?tab=folders", "settings?tab=server", "settings?tab=graphs", "settings?tab=pipelines", "settings?tab=log", "profiles"];

export async function languages(kit, openPage) {
  const { server } = kit;
  for (const [name, viewport] of Object.entries({ "": { width: 1280, height: 800 }, "phone-": { width: 390, height: 844 } })) {
    const german = await openPage(`german-${name}`, viewport, server, undefined, name !== "", "de-DE");
    const { page, step } = german;
    await step("signed-in", async () => {
      await page.goto(`${server.base}/`);
      await page.getByLabel("Name").fill(NAME);
      await page.getByLabel("Passwort").fill(PASSWORD);
      await page.getByRole("button", { name: "Anmelden" }).click();
      await page.locator("#menu").getByText("Mediathek").waitFor();
      assert.equal(await page.evaluate(() => document.documentElement.lang), "de");
    });
    const english = new Set(await readEnglish(page));
    const assertGerman = async (screen) => {
      const found = (await readShown(page)).filter((text) => english.has(text));
      assert.deepEqual(found, [], `English on ${screen}`);
      await german.assertNoSidewaysScroll();
      const isCut = await page.locator("#menu [aria-current]").evaluateAll((links) => links.some((link) => link.getBoundingClientRect().right > innerWidth));
      assert.ok(!isCut, "the current screen is in view in the menu");
    };
    await step("screens", async () => {
      for (const screen of SCREENS) {
        await german.openScreen(screen);
        await page.locator("#screen .loading").waitFor({ state: "detached" });
        await page.locator("#screen h1, #screen .tile, .tab > *").first().waitFor({ state: "attached" });
        await assertGerman(screen);
        await german.screenshot(screen.replace(/\W+/g, "-") || "home");
      }
    });
    await step("film", async () => {
      await german.openScreen(`file?${new URLSearchParams({ path: `${server.media}/Films/Tides (2026).mkv` })}`);
      await page.getByText("Technische Angaben").click();
      await assertGerman("film");
      await page.locator(".actions .primary").click();
      await german.waitUntilPlaying("video");
      await page.mouse.move(300, 300);
      await page.getByRole("button", { name: "Qualität und Tempo" }).click();
      await page.getByRole("radiogroup", { name: "Tempo" }).getByRole("radio", { name: "1,25×" }).click();
      await page.keyboard.press("?");
      await page.getByText("Leertaste, K").waitFor();
      await assertGerman("player");
    });
    await page.close();
  }

  const other = await openPage("spanish-", undefined, server, await kit.page.context().storageState());
  await other.step("chosen", async () => {
    await other.openScreen("settings");
    await other.page.locator("[name=language]").selectOption("Español");
    await other.page.getByRole("heading", { name: "Ajustes" }).waitFor();
    assert.equal(await other.page.evaluate(() => document.documentElement.lang), "es");
    await other.page.locator("[name=theme]").selectOption("Claro");
    await other.page.locator("body").evaluate((body) => getComputedStyle(body).backgroundColor).then((colour) => assert.equal(colour, "rgb(250, 247, 244)"));
    await other.page.locator("[name=quality]").selectOption("240p");
  });
  await other.step("quality", async () => {
    const requested = other.page.waitForRequest((request) => request.url().endsWith("/transcode/start"));
    await other.openScreen(`play?${new URLSearchParams({ path: `${server.media}/Films/Ember (2026).mp4` })}`);
    assert.equal((await requested).postDataJSON().profile.resolution, "240p");
  });
  other.assertClean();
  await other.page.close();
}
