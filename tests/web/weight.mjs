// How much the first screen weighs: everything asked for until home is shown, packed as a server on the way would.

import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";

const MOST = 60_000;

export async function weight(_, another) {
  const fresh = await another("");
  const bodies = [];
  fresh.page.on("response", (answer) => {
    if (new URL(answer.url()).pathname.match(/^\/($|web\/)/)) bodies.push(answer.body().catch(() => Buffer.alloc(0)));
  });
  await fresh.signIn();
  await fresh.page.locator(".tile, .card").first().waitFor();
  const packed = (await Promise.all(bodies)).map((body) => gzipSync(body).length).reduce((sum, n) => sum + n, 0);
  console.log(`ok first load: ${packed} bytes in ${bodies.length} files`);
  assert.ok(packed <= MOST, `the first load is ${packed} bytes packed`);
  assert.ok(!fresh.asked.some((line) => line.includes("/vendor/")), "no player before something plays");
  fresh.clean();
}
