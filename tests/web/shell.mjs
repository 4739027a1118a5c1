// The service worker: the page opens without the server, and what is not of the shell never comes from it.

import assert from "node:assert/strict";
import { waitUntil } from "./program.mjs";

export async function shell(kit, openPage) {
  const other = await openPage("shell-", undefined, kit.server, await kit.page.context().storageState(), false, undefined, "allow");
  const { page, step } = other;
  let responses = [];
  page.on("response", (response) => responses.push(response));
  /** The paths that came from the worker, and those that did not. */
  const split = () => [true, false].map((isFromWorker) => responses.filter((response) => response.fromServiceWorker() === isFromWorker).map((response) => new URL(response.url()).pathname));

  await step("installed", async () => {
    await other.openScreen("");
    await page.locator(".tile").first().waitFor();
    await page.evaluate(() => navigator.serviceWorker.ready);
    await waitUntil("all files are stored", () => page.evaluate(async () => {
      const name = (await caches.keys()).find((key) => key.startsWith("hearthcast.shell "));
      return name && (await (await caches.open(name)).keys()).length > 60;
    }));
  });
  await step("from-the-worker", async () => {
    responses = [];
    await page.reload();
    await page.locator(".tile").first().waitFor();
    const [fromWorker, fromServer] = split();
    for (const path of ["/", "/web/app.js", "/web/style.css", "/web/language/en.js", "/web/home.js"]) assert.ok(fromWorker.includes(path), `${path} is not among ${fromWorker}`);
    assert.deepEqual(fromWorker.filter((path) => path.startsWith("/api/")), [], "the API is never answered by the worker");
    assert.ok(fromServer.some((path) => path.startsWith("/api/")));
  });
  await step("without-the-server", async () => {
    other.assertClean();
    await page.context().setOffline(true);
    await page.reload();
    await page.getByRole("alert").filter({ hasText: "Can’t reach the server" }).waitFor();
    await page.context().setOffline(false);
    await page.getByRole("button", { name: "Try again" }).click();
    await page.locator(".tile").first().waitFor();
    other.faults.length = 0; // The requests that failed on purpose.
  });
  await page.close();
}
