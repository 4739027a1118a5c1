// From the printed link to a picture, in a real browser, screen by screen. Nothing may leave the server, nothing may
// break the page's policy. `journey.mjs PROGRAM SHOTS [STEP…]` runs only the steps named, behind the set-up.

import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";
import { access } from "./access.mjs";
import { account } from "./account.mjs";
import { admin } from "./admin.mjs";
import { bench } from "./bench.mjs";
import { books } from "./books.mjs";
import { films } from "./films.mjs";
import { guide } from "./guide.mjs";
import { home } from "./home.mjs";
import { kit } from "./kit.mjs";
import { line } from "./line.mjs";
import { live } from "./live.mjs";
import { demo } from "./program.mjs";
import { setUp } from "./setup.mjs";
import { weight } from "./weight.mjs";

const [binary, shots, ...named] = process.argv.slice(2);
mkdirSync(shots, { recursive: true });

const server = await demo(binary);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--mute-audio", "--autoplay-policy=no-user-gesture-required"],
});
let failed = false;
let first = null;
try {
  first = await kit({ browser, server, shots });
  await setUp(first);
  const another = (name, viewport, of = server) => kit({ browser, server: of, shots, name, viewport });
  for (const screen of [films, books, home, guide, live, admin, access, account]) {
    if (named.length === 0 || named.includes(screen.name)) await screen(first, another);
    first.clean();
  }
  if (named.length === 0 || named.includes("weight")) await weight(first, another);
  // What depends on how quick the machine is.
  for (const when of [line, bench]) {
    if (named.includes(when.name)) await when(first, another);
  }
} catch (fault) {
  failed = true;
  console.error(fault);
  console.error(`--- the page said:\n${first?.faults.join("\n")}`);
  console.error(`--- the page was answered:\n${first?.trail.join("\n")}`);
  console.error(`--- the program said:\n${server.said()}`);
} finally {
  await browser.close();
  const code = await server.stop();
  if (code !== 0) {
    failed = true;
    console.error(`the program ended with ${code} after SIGTERM`);
  }
}
process.exit(failed ? 1 : 0);
