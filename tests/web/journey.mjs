// All screens in a real browser, from the printed link to playback. The page must not send requests to other servers or
// violate its CSP. `journey.mjs PROGRAM SHOTS [STEP…]` runs only the named steps, after the set-up.

import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";
import { access } from "./access.mjs";
import { account } from "./account.mjs";
import { admin } from "./admin.mjs";
import { bench } from "./bench.mjs";
import { books } from "./books.mjs";
import { defects } from "./defects.mjs";
import { defectsAtSizes } from "./defects-at-sizes.mjs";
import { films } from "./films.mjs";
import { firefox } from "./firefox.mjs";
import { guide } from "./guide.mjs";
import { home } from "./home.mjs";
import { languages } from "./languages.mjs";
import { library } from "./library.mjs";
import { createKit } from "./kit.mjs";
import { slowNetwork } from "./slow-network.mjs";
import { live } from "./live.mjs";
import { layout } from "./layout.mjs";
import { liveLanguages } from "./live-languages.mjs";
import { player } from "./player.mjs";
import { renditions } from "./renditions.mjs";
import { startDemo } from "./program.mjs";
import { shell } from "./shell.mjs";
import { setUp } from "./setup.mjs";
import { television } from "./television.mjs";
import { weight } from "./weight.mjs";

const [binary, shots, ...named] = process.argv.slice(2);
mkdirSync(shots, { recursive: true });

const server = await startDemo(binary);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--mute-audio", "--autoplay-policy=no-user-gesture-required"],
});
let failed = false;
let firstKit = null;
try {
  firstKit = await createKit({ browser, server, shots });
  await setUp(firstKit);
  const openPage = (name, viewport, of = server, storageState = undefined, isTouch = false, locale = undefined, serviceWorkers = undefined) =>
    createKit({ browser, server: of, shots, name, viewport, storageState, isTouch, locale, serviceWorkers });
  for (const screen of [films, player, library, defects, defectsAtSizes, books, home, renditions, guide, television, live, liveLanguages, admin, languages, shell, access, account, firefox]) {
    if (named.length === 0 || named.includes(screen.name)) await screen(firstKit, openPage, shots);
    firstKit.assertClean();
  }
  if (named.length === 0 || named.includes("weight")) await weight(firstKit, openPage);
  // These depend on the speed of the machine, or on the library of the demo alone.
  for (const when of [slowNetwork, bench, layout]) {
    if (named.includes(when.name)) await when(firstKit, openPage);
  }
} catch (fault) {
  failed = true;
  // The fault comes last, where readers of a long log look first.
  console.error(`--- the end of the program's output:\n${server.output().split("\n").slice(-100).join("\n")}`);
  console.error(`--- the page's errors:\n${firstKit?.faults.join("\n")}`);
  console.error(fault);
} finally {
  await browser.close();
  const code = await server.stop();
  if (code !== 0) {
    failed = true;
    console.error(`the program ended with ${code} after SIGTERM`);
  }
}
process.exit(failed ? 1 : 0);
