// Real players on a channel of very different films: each starts cold, all play at once.
// `soak.mjs PROGRAM [BOUNDARIES [PLAYER…]]`. With SKIPS=SECONDS the films are twice as long and the channel is on demand: it
// skips to the next film at this interval. With BREAKS=1 there is one film of half an hour, joined half a minute before its
// first break. With COPIES=1 the films are in HEVC, AV1 and H.264, and browsers get those as they are that they decode.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startDemo } from "./program.mjs";
import { createAdmin } from "./admin-client.mjs";
import { chromium } from "./chromium.mjs";
import { firefox } from "./firefox.mjs";
import { ffmpeg, gstreamer, mpv, vlc } from "./players.mjs";
import { kodi } from "./kodi.mjs";
import { watch } from "./watch.mjs";

/** Seconds between skips; 0 for none. */
const SKIP_SECONDS = Number(process.env.SKIPS ?? 0);

/** Whether the channel has one film with filler breaks, and the start of its first break. */
const HAS_BREAKS = process.env.BREAKS === "1";
const FIRST_BREAK_SECONDS = 600;

/** Whether video is copied. */
const HAS_COPIES = process.env.COPIES === "1";

/** The length of a film, and how much of it is played. */
const FILM_SECONDS = SKIP_SECONDS > 0 ? 2 * SKIP_SECONDS : HAS_COPIES ? 20 : 6;
const SEEN_SECONDS = SKIP_SECONDS || FILM_SECONDS;

const COPIED_FILMS = [
  ["A.mkv", "testsrc2=s=640x360:r=25", "sine=300:r=48000", "-c:v libx265 -preset ultrafast -x265-params keyint=50:min-keyint=50:log-level=none -pix_fmt yuv420p10le -c:a aac"],
  ["B.mp4", "testsrc2=s=1280x720:r=25", "sine=400:r=48000", "-c:v libx264 -preset ultrafast -g 50 -pix_fmt yuv420p -c:a aac"],
  ["C.mkv", "testsrc2=s=640x360:r=30", "sine=500:r=48000", "-c:v libsvtav1 -preset 12 -g 60 -pix_fmt yuv420p -c:a libopus"],
];

const FILMS = HAS_COPIES ? COPIED_FILMS : [
  ["A.mp4", "testsrc2=s=640x360:r=25", "sine=300:r=48000", "-c:v libx264 -preset ultrafast -g 50 -bf 2 -pix_fmt yuv420p -c:a aac"],
  ["B.mkv", "testsrc2=s=320x240:r=30", "sine=400:r=44100", "-c:v mpeg4 -c:a libmp3lame -ac 1"],
  ["C.mkv", "testsrc2=s=1280x720:r=24000/1001", "sine=500:r=48000", "-c:v libx264 -preset ultrafast -g 96 -pix_fmt yuv420p -c:a ac3 -ac 6"],
  ["D.mkv", "testsrc2=s=640x360:r=50", "sine=600:r=48000", "-c:v libvpx -b:v 1M -c:a libopus"],
  ["E.mp4", "testsrc2=s=480x270:r=30000/1001", null, "-c:v libx264 -preset ultrafast -g 60 -pix_fmt yuv420p"],
  ["F.flac", null, "sine=700:r=44100", "-ac 2"],
];

const PLAYERS = { ffmpeg, mpv, vlc, gstreamer, kodi, chromium, firefox };

const [binary, boundaries = "10", ...named] = process.argv.slice(2);
const chosen = named.length > 0 ? named : HAS_COPIES ? ["chromium", "firefox"] : Object.keys(PLAYERS);
const folder = mkdtempSync(join(tmpdir(), "hearthcast-players-"));
const server = await startDemo(binary);
let failed = false;
try {
  const channel = await createChannel();
  const seconds = Number(boundaries) * SEEN_SECONDS;
  if (SKIP_SECONDS > 0) setInterval(() => channel.skip().catch((fault) => { failed = true; console.error(fault); }), SKIP_SECONDS * 1000).unref();
  const results = await Promise.allSettled(chosen.map((name) => watchPlayer(name, channel, seconds)));
  for (const [n, result] of results.entries()) {
    if (result.status === "rejected") {
      failed = true;
      console.error(`FAILED ${chosen[n]}: ${result.reason.stack}`);
    }
  }
} finally {
  failed ||= (await server.stop()) !== 0;
  rmSync(folder, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);

/** Creates the channel; returns the links of a stream token, and a function that skips. */
async function createChannel() {
  const send = await createAdmin(server);
  const schedule = HAS_BREAKS ? createBrokenFilm() : createMixedSchedule();
  const body = { name: "Mixed", number: 1, category: "Films", scheduleMode: "sequential", ...schedule };
  const { channel: { id } } = await send("/api/livetv/channels", body);
  const { secret } = await send("/api/livetv/tokens", { name: "players", channelIds: [id] });
  const withToken = (path) => `${server.base}${path}?token=${secret}`;
  const skip = () => send(`/api/livetv/channels/${id}/skip`, {});
  if (HAS_COPIES) return { base: server.base, open: (capabilities) => openCopies(withToken(`/api/livetv/watch/${id}`), capabilities) };
  return { skip, base: server.base, m3u: withToken("/api/livetv/m3u"), xmltv: withToken("/api/livetv/xmltv"), live: withToken(`/api/livetv/watch/${id}/live.m3u8`) };
}

/** The playlist in which the films are copied whose codecs the browser decodes. */
async function openCopies(watchAddress, { codecs }) {
  const videoCodecs = codecs.filter((codec) => /^(hvc1|av01|vp09)\./.test(codec)).join(",");
  const answer = await fetch(`${watchAddress}&${new URLSearchParams({ wait: "15", format: "fmp4", videoCodecs })}`);
  const playlist = await answer.text();
  console.log(`opened with ${videoCodecs}: ${playlist.match(/CODECS="[^"]*"/g)}`);
  return answer.url;
}

/** All films in turn. The channel started an hour ago, so that players find a full live window. */
function createMixedSchedule() {
  for (const [name, videoSource, audioSource, options] of FILMS) {
    const inputs = [videoSource, audioSource].filter(Boolean).flatMap((source) => ["-f", "lavfi", "-t", String(FILM_SECONDS), "-i", source]);
    server.makeMedia(join("Mixed", name), [...inputs, ...options.split(" ")]);
  }
  return { onDemand: SKIP_SECONDS > 0, startAt: ago(3600), items: [{ path: join(server.media, "Mixed") }] };
}

/** A film with a chapter mark for its break, and the others as filler. */
function createBrokenFilm() {
  const chapters = [[0, FIRST_BREAK_SECONDS], [FIRST_BREAK_SECONDS, 1800]].map(([from, to]) => `[CHAPTER]\nTIMEBASE=1/1\nSTART=${from}\nEND=${to}\n`);
  server.writeMedia("chapters.txt", `;FFMETADATA1\n${chapters.join("")}`);
  const inputs = ["-f", "lavfi", "-t", "1800", "-i", "testsrc2=s=320x180:r=10", "-f", "lavfi", "-t", "1800", "-i", "sine=300:r=48000"];
  const options = "-map 0:v -map 1:a -map_chapters 2 -c:v libx264 -preset ultrafast -g 20 -pix_fmt yuv420p -c:a aac".split(" ");
  server.makeMedia(join("Film", "film.mp4"), [...inputs, "-f", "ffmetadata", "-i", join(server.media, "chapters.txt"), ...options]);
  createMixedSchedule();
  return {
    startAt: ago(FIRST_BREAK_SECONDS - 30),
    items: [{ path: join(server.media, "Film") }],
    filler: { mid: [{ path: join(server.media, "Mixed"), recursive: true }] },
  };
}

function ago(seconds) {
  return new Date(Date.now() - seconds * 1000).toISOString();
}

/** Runs a player for a time; fails if it stalls or complains. */
async function watchPlayer(name, tv, seconds) {
  const { startSeconds, longest, stalls, faults, complaints } = await watch(PLAYERS[name], tv, join(folder, name), { seconds });
  console.log(`${name}: first after ${startSeconds.toFixed(1)} s, ${seconds / SEEN_SECONDS} boundaries, ${stalls} stalls, longest step ${longest.toFixed(2)} s${faults.map((fault) => `; ${fault}`).join("")}`);
  if (stalls > 0 || faults.length > 0) throw new Error(`${stalls} stalls; ${faults.join("; ")}\n${complaints.slice(-2000)}`);
}
