// Preferences on two devices, signing out and in again, and a film on a phone.

import assert from "node:assert/strict";
import { NAME, PASSWORD } from "./kit.mjs";
import { waitUntil } from "./program.mjs";

export async function account(kit, openPage) {
  const { page, step, waitUntilPlaying, faults } = kit;
  await languagesOnTwoDevices(kit, openPage);
  await household(kit, openPage);
  await kit.openScreen("");
  await step("signed-out", async () => {
    // A picture that is still on its way when the session ends is refused, rightly, and browsers log that.
    await waitUntil("all pictures are shown", () => page.evaluate(() => [...document.images].every((image) => image.complete || image.loading === "lazy")));
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Welcome back" }).waitFor();
    await page.getByLabel("Name").fill(NAME);
    await page.getByLabel("Password").fill("not the password");
    faults.splice(0, faults.length, ...faults.filter((fault) => !(/403/.test(fault) && /\/artwork\//.test(fault))));
    kit.assertClean(); // The next request is refused on purpose, and browsers log that.
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").filter({ hasText: "Wrong name or password" }).waitFor();
    faults.splice(0, faults.length, ...faults.filter((fault) => !/401/.test(fault)));
  });

  await page.setViewportSize({ width: 390, height: 844 });
  await step("phone", async () => {
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("link", { name: "Library" }).click();
    await page.getByRole("link", { name: "Films", exact: true }).click();
    await page.locator(".tile").filter({ hasText: "Ember" }).click();
    await page.locator(".actions .primary").click();
    await waitUntilPlaying("video");
    await kit.assertNoSidewaysScroll();
  });
  await page.setViewportSize({ width: 1280, height: 800 });
  assert.equal(await page.evaluate(() => document.querySelectorAll("style, script:not([src])").length), 0, "no inline styles or scripts");
}

/** Pictures, PINs and folders; a phone that is signed in changes its user, and back. */
async function household(kit, openPage) {
  const { page, step } = kit;
  const phone = await openPage("phone-", { width: 390, height: 844 }, kit.server, undefined, true);
  const withoutRefusals = (faults) => faults.splice(0, faults.length, ...faults.filter((fault) => !/401/.test(fault)));
  const change = async (from, to, pins) => {
    const link = phone.page.getByRole("link", { name: `${from}: change user` });
    await phone.assertPressable(link, "picture");
    await link.click();
    await phone.page.getByRole("heading", { name: "Who’s watching?" }).waitFor();
    await phone.assertNoSidewaysScroll();
    await phone.page.getByRole("button", { name: to, exact: true }).click();
    for (const pin of pins) {
      await phone.page.getByLabel("PIN").fill(pin);
      await phone.page.getByRole("button", { name: "Continue" }).click();
      if (pin === "0000") await phone.page.getByRole("alert").filter({ hasText: "That PIN isn’t right." }).waitFor();
      if (pin === "0000") await phone.screenshot("wrong-pin");
    }
    await phone.page.getByRole("link", { name: `${to}: change user` }).waitFor();
    withoutRefusals(phone.faults);
  };
  await step("profile", async () => {
    const added = await kit.api("POST", "/api/users", { username: "Kid", password: PASSWORD });
    assert.equal(added.status, 201);
    await kit.openScreen("settings?tab=account");
    for (const label of ["Teal", "Rocket"]) {
      await kit.assertPressable(page.getByRole("button", { name: label }), label);
      await page.getByRole("button", { name: label }).click();
      await page.getByRole("button", { name: label, pressed: true }).waitFor();
    }
    await page.locator("#account .avatar svg").waitFor();
    await page.getByLabel("Needs").selectOption({ label: "A PIN" });
    await page.getByLabel("PIN (4 to 8 digits)").fill("13579");
    const form = page.locator("form").filter({ has: page.getByLabel("Needs") });
    await form.getByLabel("Current password").fill(PASSWORD);
    await form.getByRole("button", { name: "Save" }).click();
    await waitUntil("the PIN is set", async () => (await kit.api("GET", "/api/household/me")).body.hasPin);
    await kit.openScreen("settings?tab=users");
    await page.getByRole("row").filter({ hasText: "Kid" }).getByRole("link").click();
    await page.getByRole("button", { name: "Cat" }).click();
    await page.getByRole("button", { name: "Cat", pressed: true }).waitFor();
    await page.getByLabel("Needs").selectOption({ label: "A PIN" });
    await page.getByLabel("PIN (4 to 8 digits)").fill("2468");
    await page.locator("form").filter({ has: page.getByLabel("Needs") }).getByRole("button", { name: "Save" }).click();
    await waitUntil("the PIN of the other user is set", async () => (await kit.api("GET", "/api/household")).body.members.some(({ username, needs }) => username === "Kid" && needs === "pin"));
    const folders = page.locator(".seen-folders");
    await folders.getByLabel("All folders").uncheck();
    for (const box of await folders.locator("[name=folder]").all()) await box.uncheck();
    await folders.getByRole("button", { name: "Save" }).click();
    await waitUntil("the folders are chosen", async () => (await kit.api("GET", "/api/users")).body.users.find(({ username }) => username === "Kid").member.folders?.length === 0);
  });
  await step("who-is-watching", async () => {
    await phone.signIn();
    await change(NAME, "Kid", ["0000", "2468"]);
    assert.deepEqual((await phone.api("GET", "/api/library")).body.entries, [], "no folder is seen");
    await phone.openScreen("settings");
    assert.equal(await phone.page.getByRole("link", { name: "Users" }).count(), 0, "a viewer has no settings of the household");
  });
  await step("role", async () => {
    const form = page.locator("form").filter({ has: page.getByLabel("Role") });
    await form.getByLabel("Name").fill("Junior");
    await form.getByLabel("Role").selectOption({ label: "Administrator" });
    await kit.assertPressable(form.getByRole("button", { name: "Save" }), "Save");
    await form.getByRole("button", { name: "Save" }).click();
    await page.getByRole("row", { name: "Junior Administrator" }).waitFor();
    assert.equal(await page.locator(".seen-folders").count(), 0, "administrators see all folders");
    await phone.openScreen("settings?tab=users");
    await phone.page.getByRole("link", { name: "Users" }).waitFor();
    await phone.page.locator(".profile[title=Junior]").waitFor();
    assert.notDeepEqual((await phone.api("GET", "/api/library")).body.entries, []);
    await form.getByLabel("Role").selectOption({ label: "Viewer" });
    await form.getByRole("button", { name: "Save" }).click();
    await page.getByRole("row", { name: "Junior Viewer" }).waitFor();
    await phone.openScreen("settings?tab=account");
    await phone.page.getByRole("button", { name: "Teal" }).waitFor();
    assert.equal(await phone.page.getByRole("link", { name: "Users" }).count(), 0, "the role of before is gone");
  });
  await step("who-is-watching-again", async () => {
    await change("Junior", NAME, ["13579"]);
    assert.notDeepEqual((await phone.api("GET", "/api/library")).body.entries, []);
    await phone.openScreen("profiles");
    await phone.page.getByRole("button", { name: "Junior" }).waitFor();
    phone.assertClean();
  });
}

const CUES = (words) => `WEBVTT\n\n00:00:00.000 --> 00:00:19.000\n${words}\n`;

/** What one device chooses for a series, the next episode has on another one. */
async function languagesOnTwoDevices({ server, step }, openPage) {
  const first = server.makeMedia("Series/Twins/Twins S01E01.mkv", ["-f", "lavfi", "-i", "testsrc2=s=320x180:r=12:d=20", "-f", "lavfi", "-i", "sine=440:d=20",
    "-f", "lavfi", "-i", "sine=880:d=20", "-map", "0", "-map", "1", "-map", "2", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac",
    "-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=ger"]);
  server.makeMedia("Series/Twins/Twins S01E02.mkv", ["-i", first, "-map", "0", "-c", "copy"]);
  for (const [episode, language] of [[1, "en"], [1, "de"], [2, "en"], [2, "de"]]) server.writeMedia(`Series/Twins/Twins S01E0${episode}.${language}.vtt`, CUES(`Twins ${episode} ${language}`));
  const phone = await openPage("phone-", { width: 390, height: 844 }, server, undefined, true);
  const desk = await openPage("desk-");
  const play = async (device, episode) => {
    await device.openScreen(`play?${new URLSearchParams({ path: `${server.media}/Series/Twins/Twins S01E0${episode}.mkv`, at: 1 })}`);
    await device.waitUntilPlaying("video");
  };
  await step("languages-on-two-devices", async () => {
    await phone.signIn();
    // Other steps have chosen languages.
    assert.equal((await phone.api("PATCH", "/api/preferences", { languages: { audio: null, subtitle: null } })).status, 200);
    await phone.page.reload();
    await desk.signIn();
    await play(desk, 1);
    const atFirst = [await desk.chosenOption("Audio"), await desk.chosenOption("Subtitles")];
    assert.ok(!atFirst.some((label) => label.startsWith("German")), atFirst.join());
    await play(phone, 1);
    await phone.chooseOption("Audio", "German · mono");
    await phone.chooseOption("Subtitles", "German");
    await waitUntil("the server has the choice", async () => {
      const { body } = await phone.api("GET", "/api/preferences");
      return body.preferences.series.some(({ series, audio, subtitle }) => series.endsWith("/Twins") && audio && subtitle);
    });
    await play(desk, 2);
    assert.deepEqual([await desk.chosenOption("Audio"), await desk.chosenOption("Subtitles")], ["German · mono", "German"]);
    await desk.page.locator(".subtitles .cue").getByText("Twins 2 de").waitFor();
    await desk.screenshot("languages-on-two-devices");
  });
  for (const device of [phone, desk]) {
    device.assertClean();
    await device.page.context().close();
  }
}
