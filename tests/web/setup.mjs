// The first minutes: the account, and the library.

import assert from "node:assert/strict";
import { NAME, PASSWORD } from "./kit.mjs";

export async function setUp({ page, server, step }) {
  await step("set-up", async () => {
    await page.goto(server.link);
    await page.getByLabel("Name").fill(NAME);
    await page.getByLabel("Password").fill(PASSWORD);
    assert.match(await page.getByLabel("Set-up code").inputValue(), /^[a-z0-9-]{20,}$/);
  });
  await page.getByRole("button", { name: "Create account" }).click();
  await server.ready();
  await step("set-up-first-channel", async () => {
    await page.reload(); // Its samples have come since.
    await page.getByRole("button", { name: "Films" }).waitFor();
  });
  await page.getByRole("link", { name: "Skip this" }).click();
  await page.getByText("Nothing has been watched yet").waitFor();
}
