// Real players on films of every codec: `films.mjs PROGRAM [PLAYER…]`. Each player gets a session as its capabilities say and must
// play it at pace; what the table says it decodes must reach it as it is.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAdmin } from "./admin-client.mjs";
import { chromium, chromiumNative } from "./chromium.mjs";
import { firefox } from "./firefox.mjs";
import { kodiFilm, kodiAdaptiveFilm } from "./kodi-film.mjs";
import { ffmpeg, gstreamer, hlsdemux2, mpv, vlc } from "./players.mjs";
import { startDemo } from "./program.mjs";
import { watch } from "./watch.mjs";

const FILM_SECONDS = 36;
const SEEN_SECONDS = 6;

const H264 = "-c:v libx264 -preset ultrafast -g 50 -bf 2 -pix_fmt yuv420p";
const HEVC = "-c:v libx265 -preset ultrafast -x265-params log-level=error:keyint=50 -pix_fmt yuv420p10le";

/** Name, video codec, audio codec, container, and the arguments of the encoders. */
const FILMS = [
  ["h264", "aac", "mp4", `${H264} -c:a aac`],
  ["h264", "aac 5.1", "mkv", `${H264} -c:a aac -ac 6`],
  ["h264 10-bit", "aac", "mkv", "-c:v libx264 -preset ultrafast -g 50 -bf 2 -pix_fmt yuv420p10le -c:a aac"],
  ["h264 open", "aac", "mkv", "-c:v libx264 -preset veryfast -bf 3 -x264-params keyint=50:scenecut=0:open-gop=1 -pix_fmt yuv420p -c:a aac"],
  ["hevc 10-bit", "eac3 5.1", "mkv", `${HEVC} -c:a eac3 -ac 6`],
  ["hevc 10-bit", "aac", "mp4", `${HEVC} -c:a aac`],
  ["av1", "opus", "mkv", "-c:v libsvtav1 -preset 12 -g 50 -pix_fmt yuv420p -c:a libopus"],
  ["vp9", "opus 5.1", "webm", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 50 -pix_fmt yuv420p -c:a libopus -ac 6"],
  ["h264", "flac 5.1", "mkv", `${H264} -c:a flac -ac 6`],
  ["h264", "ac3 5.1", "mkv", `${H264} -c:a ac3 -ac 6`],
  ["h264", "dts 5.1", "mkv", `${H264} -c:a dca -strict -2 -ac 6 -channel_layout 5.1(side)`],
  ["h264", "alac", "mp4", `${H264} -c:a alac`],
  ["h264", "mp3", "mkv", `${H264} -c:a libmp3lame`],
];

const BROWSER = { player: null, video: ["h264", "h264 open", "av1", "vp9"], audio: ["aac", "opus", "flac"] };
const EVERY_VIDEO = ["h264", "h264 open", "h264 10-bit", "hevc 10-bit", "av1", "vp9"];
const EVERY_AUDIO = ["aac", "opus", "flac", "ac3", "eac3", "dts", "alac", "mp3"];
const SOFTWARE = { video: EVERY_VIDEO, audio: EVERY_AUDIO };

/** How each is started, its `player` in the request (null: it probes), and the codecs that must be copied for it. */
const PLAYERS = {
  ffmpeg: { start: ffmpeg, player: "ffmpeg", ...SOFTWARE },
  mpv: { start: mpv, player: "mpv", ...SOFTWARE },
  vlc: { start: vlc, player: "vlc", ...SOFTWARE },
  gstreamer: { start: gstreamer, player: "gstreamer", video: ["h264"], audio: ["aac"] },
  hlsdemux2: { start: hlsdemux2, player: "hlsdemux2", video: ["h264", "vp9"], audio: ["aac", "opus", "flac"] },
  kodi: { start: kodiFilm, player: "kodi", ...SOFTWARE },
  "kodi-isa": { start: kodiAdaptiveFilm, player: "kodi-isa", video: EVERY_VIDEO.filter((codec) => codec !== "vp9"), audio: ["aac", "ac3", "eac3"] },
  chromium: { start: chromium, ...BROWSER, video: [...BROWSER.video, "h264 10-bit"] },
  "chromium-native": { start: chromiumNative, ...BROWSER, player: "chrome-native" },
  firefox: { start: firefox, ...BROWSER, video: [...BROWSER.video, "hevc 10-bit"] },
};

const [binary, ...named] = process.argv.slice(2);
const chosen = named.length > 0 ? named : Object.keys(PLAYERS);
const folder = mkdtempSync(join(tmpdir(), "hearthcast-films-"));
const server = await startDemo(binary);
let failures = 0;
try {
  const send = await createAdmin(server);
  for (const film of FILMS) makeFilm(film);
  for (const name of chosen) {
    for (const [n, film] of FILMS.entries()) await playFilm(send, name, film, n);
  }
} finally {
  failures += (await server.stop()) === 0 ? 0 : 1;
  rmSync(folder, { recursive: true, force: true });
}
process.exit(failures > 0 ? 1 : 0);

function fileName([video, audio, container]) {
  return `${video} ${audio}.${container}`;
}

function makeFilm(film) {
  const sources = [`testsrc2=s=640x360:r=25:d=${FILM_SECONDS}`, `sine=300:r=48000:d=${FILM_SECONDS}`];
  server.makeMedia(join("Codecs", fileName(film)), [...sources.flatMap((source) => ["-f", "lavfi", "-i", source]), ...film[3].split(" ")]);
}

/** Plays one film with one player; prints a row. */
async function playFilm(send, name, film, n) {
  const { start, player, video, audio } = PLAYERS[name];
  let session = null;
  const open = async (capabilities) => {
    const mediaPath = join(server.media, "Codecs", fileName(film));
    session = await send("/api/stream/transcode/start", { mediaPath, forceTranscode: true, ...(capabilities ? { capabilities } : { player }) });
    return server.base + session.signedPlaylistUrl;
  };
  const source = player ? { base: server.base, live: await open() } : { base: server.base, open };
  if (player) source.m3u = source.live;
  const problems = [];
  let row = "";
  try {
    const seen = await watch(start, source, join(folder, `${name}-${n}`), { seconds: SEEN_SECONDS, startSeconds: 40, isFinite: true });
    row = `first after ${seen.startSeconds.toFixed(1)} s, longest step ${seen.longest.toFixed(2)} s`;
    problems.push(...seen.faults, ...(seen.stalls > 0 ? [`${seen.stalls} stalls`] : []));
  } catch (fault) {
    problems.push(fault.message.slice(0, 1500));
  }
  if (session) await send(`/api/stream/transcode/${session.sessionId}`, undefined, "DELETE");
  const { decision } = session ?? {};
  const mustCopy = { video: video.includes(film[0]), audio: audio.includes(film[1].split(" ")[0]) };
  for (const kind of ["video", "audio"]) {
    if (mustCopy[kind] && decision?.[kind] !== "copy") problems.push(`${kind} is not copied`);
  }
  if (problems.length > 0) failures += 1;
  const made = decision ? `${decision.format}, video ${decision.video}, audio ${decision.audio}` : "no session";
  console.log(`${problems.length > 0 ? "FAILED " : ""}${name}: ${fileName(film)}: ${made}; ${row}${problems.map((problem) => `; ${problem}`).join("")}`);
}
