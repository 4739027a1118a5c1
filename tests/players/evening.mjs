// A channel of films as different as a household's, and players that stay with it: each from cold, all at once.
// `evening.mjs PROGRAM [BOUNDARIES [PLAYER…]]`; with SKIPS=SECONDS in the environment the films are twice as long and the channel airs
// only while somebody watches: every so many seconds it goes on with the next film. With BREAKS=1 they are one film of half an hour, joined
// half a minute before the first break in it.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { demo, NAME, PASSWORD, until } from "./program.mjs";
import { chromium } from "./chromium.mjs";
import { firefox } from "./firefox.mjs";
import { ffmpeg, gstreamer, mpv, vlc } from "./players.mjs";
import { kodi } from "./kodi.mjs";

/** Seconds between skips; 0 for none. */
const SKIPS = Number(process.env.SKIPS ?? 0);

/** Whether there is a film that is broken by fillers, and where it is first, seconds. */
const BREAKS = process.env.BREAKS === "1";
const BREAK = 600;

/** Length of a film, and of what is seen of it, seconds. */
const FILM = SKIPS > 0 ? 2 * SKIPS : 6;
const SEEN = SKIPS || FILM;

/** Without progress for so long a player stands still, seconds: longer than any of them takes to say where it is. */
const STILL = 2.5;

const FILMS = [
  ["A.mp4", "testsrc2=s=640x360:r=25", "sine=300:r=48000", "-c:v libx264 -preset ultrafast -g 50 -bf 2 -pix_fmt yuv420p -c:a aac"],
  ["B.mkv", "testsrc2=s=320x240:r=30", "sine=400:r=44100", "-c:v mpeg4 -c:a libmp3lame -ac 1"],
  ["C.mkv", "testsrc2=s=1280x720:r=24000/1001", "sine=500:r=48000", "-c:v libx264 -preset ultrafast -g 96 -pix_fmt yuv420p -c:a ac3 -ac 6"],
  ["D.mkv", "testsrc2=s=640x360:r=50", "sine=600:r=48000", "-c:v libvpx -b:v 1M -c:a libopus"],
  ["E.mp4", "testsrc2=s=480x270:r=30000/1001", null, "-c:v libx264 -preset ultrafast -g 60 -pix_fmt yuv420p"],
  ["F.flac", null, "sine=700:r=44100", "-ac 2"],
];

const PLAYERS = { ffmpeg, mpv, vlc, gstreamer, kodi, chromium, firefox };

const [binary, boundaries = "10", ...named] = process.argv.slice(2);
const chosen = named.length > 0 ? named : Object.keys(PLAYERS);
const folder = mkdtempSync(join(tmpdir(), "hearthcast-players-"));
const server = await demo(binary);
let failed = false;
try {
  const tv = await channel();
  const seconds = Number(boundaries) * SEEN;
  if (SKIPS > 0) setInterval(() => tv.skip().catch((fault) => { failed = true; console.error(fault); }), SKIPS * 1000).unref();
  const ends = await Promise.allSettled(chosen.map((name) => watch(name, tv, seconds)));
  for (const [n, end] of ends.entries()) {
    if (end.status === "rejected") {
      failed = true;
      console.error(`FAILED ${chosen[n]}: ${end.reason.stack}`);
    }
  }
} finally {
  failed ||= (await server.stop()) !== 0;
  rmSync(folder, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);

/** A channel of all films in turn, and the links of a device. */
async function channel() {
  const send = async (path, body, token) => {
    const headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
    const answer = await fetch(server.base + path, { method: "POST", headers, body: JSON.stringify(body) });
    const said = await answer.json();
    if (!answer.ok) throw new Error(`${path}: ${JSON.stringify(said)}`);
    return said;
  };
  const code = new URLSearchParams(new URL(server.link).hash.split("?")[1]).get("code");
  const { token } = await send("/api/auth/setup", { code, username: NAME, password: PASSWORD });
  const wanted = BREAKS ? broken() : mixed();
  const body = { name: "Mixed", number: 1, category: "Films", scheduleMode: "sequential", ...wanted };
  const { channel: { id } } = await send("/api/livetv/channels", body, token);
  const { secret } = await send("/api/livetv/tokens", { name: "players", channelIds: [id] }, token);
  const of = (path) => `${server.base}${path}?token=${secret}`;
  const skip = () => send(`/api/livetv/channels/${id}/skip`, {}, token);
  return { skip, base: server.base, m3u: of("/api/livetv/m3u"), xmltv: of("/api/livetv/xmltv"), live: of(`/api/livetv/watch/${id}/live.m3u8`) };
}

/** The films, one after the other; it has been on for a while: players find a whole window. */
function mixed() {
  for (const [name, picture, sound, how] of FILMS) {
    const inputs = [picture, sound].filter(Boolean).flatMap((source) => ["-f", "lavfi", "-t", String(FILM), "-i", source]);
    server.make(join("Mixed", name), [...inputs, ...how.split(" ")]);
  }
  return { onDemand: SKIPS > 0, startAt: ago(3600), items: [{ path: join(server.media, "Mixed") }] };
}

/** A film with a chapter where it is broken, and the others, of which one is shown there. */
function broken() {
  const chapters = [[0, BREAK], [BREAK, 1800]].map(([from, to]) => `[CHAPTER]\nTIMEBASE=1/1\nSTART=${from}\nEND=${to}\n`);
  server.write("chapters.txt", `;FFMETADATA1\n${chapters.join("")}`);
  const inputs = ["-f", "lavfi", "-t", "1800", "-i", "testsrc2=s=320x180:r=10", "-f", "lavfi", "-t", "1800", "-i", "sine=300:r=48000"];
  const how = "-map 0:v -map 1:a -map_chapters 2 -c:v libx264 -preset ultrafast -g 20 -pix_fmt yuv420p -c:a aac".split(" ");
  server.make(join("Film", "film.mp4"), [...inputs, "-f", "ffmetadata", "-i", join(server.media, "chapters.txt"), ...how]);
  mixed();
  return {
    startAt: ago(BREAK - 30),
    items: [{ path: join(server.media, "Film") }],
    filler: { mid: [{ path: join(server.media, "Mixed"), recursive: true }] },
  };
}

function ago(seconds) {
  return new Date(Date.now() - seconds * 1000).toISOString();
}

/** Stays with a player for so long; it must go on all the time. */
async function watch(name, tv, seconds) {
  const own = join(folder, name);
  mkdirSync(own, { mode: 0o777 });
  const asked = Date.now();
  const player = await PLAYERS[name](tv, own);
  try {
    const progress = async () => (await player.progress()) ?? 0;
    await until(`${name} plays`, async () => (await progress()) > 0, 120);
    const began = Date.now();
    let [last, since, longest, stalls] = [await progress(), began, 0, 0];
    while (Date.now() - began < seconds * 1000) {
      await new Promise((resolve) => setTimeout(resolve, 250));
      const now = await progress();
      if (now > last) {
        const still = (Date.now() - since) / 1000;
        longest = Math.max(longest, still);
        if (still > (player.still ?? STILL)) stalls += 1;
        [last, since] = [now, Date.now()];
      }
      if (Date.now() - since > 30_000) throw new Error(`stands still for 30 s\n${player.said()}`);
    }
    const told = (await player.verdict?.()) ?? [];
    console.log(`${name}: first after ${((began - asked) / 1000).toFixed(1)} s, ${seconds / SEEN} boundaries, ${stalls} stalls, longest step ${longest.toFixed(2)} s${told.map((fault) => `; ${fault}`).join("")}`);
    if (stalls > 0 || told.length > 0) throw new Error(`${stalls} stalls; ${told.join("; ")}\n${player.said().slice(-2000)}`);
  } finally {
    await player.stop();
  }
}
