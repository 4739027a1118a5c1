// The size of the first load: everything requested until home is shown, compressed with gzip.

import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";

const MAX_BYTES = 60_000;

export async function weight(_, openPage) {
  const fresh = await openPage("");
  const bodies = [];
  fresh.page.on("response", (response) => {
    if (new URL(response.url()).pathname.match(/^\/($|web\/)/)) bodies.push(response.body().catch(() => Buffer.alloc(0)));
  });
  await fresh.signIn();
  await fresh.page.locator(".tile, .card").first().waitFor();
  const compressedBytes = (await Promise.all(bodies)).map((body) => gzipSync(body).length).reduce((sum, n) => sum + n, 0);
  console.log(`ok first load: ${compressedBytes} bytes in ${bodies.length} files`);
  assert.ok(compressedBytes <= MAX_BYTES, `the first load is ${compressedBytes} bytes compressed`);
  assert.ok(!fresh.requests.some((line) => line.includes("/vendor/")), "players must not be loaded before playback");
  fresh.assertClean();
}
