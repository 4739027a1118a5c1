// A 4K film in HDR10 with surround: `uhd.mjs PROGRAM [PLAYER…]`. Prints what was copied, how it played, and the processor time of the
// server. With AUDIO=aac nothing of it is encoded for a browser that decodes the video. A browser gets a session as it would beside an HDR
// screen and on a fast machine: the page claims neither here.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAdmin } from "./admin-client.mjs";
import { chromium } from "./chromium.mjs";
import { firefox } from "./firefox.mjs";
import { mpv } from "./players.mjs";
import { startDemo } from "./program.mjs";
import { watch } from "./watch.mjs";

/** The clip of 4 s is repeated. */
const REPETITIONS = 30;
const SEEN_SECONDS = 60;
const AUDIO_CODEC = process.env.AUDIO ?? "eac3";
const TICKS_PER_SECOND = Number(execFileSync("getconf", ["CLK_TCK"]));

/** BT.2020 with PQ, light levels of a film, 25 Mbit/s. */
const HDR10 = "colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:hdr10=1:max-cll=1000,400"
  + ":master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)";
const VIDEO = ["-c:v", "libx265", "-preset", "ultrafast", "-b:v", "25M", "-pix_fmt", "yuv420p10le", "-x265-params", `log-level=error:keyint=48:${HDR10}`];

/** `decodes` names codecs of 2160p that a fast machine decodes in software. */
const PLAYERS = { firefox: { start: firefox, decodes: ["hvc1.2.4.L153.B0"] }, chromium: { start: chromium }, mpv: { start: mpv, player: "mpv" } };

const [binary, ...named] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "hearthcast-uhd-"));
const server = await startDemo(binary);
let failures = 0;
try {
  const send = await createAdmin(server);
  const film = makeFilm();
  for (const name of named.length > 0 ? named : Object.keys(PLAYERS)) await playFilm(send, name, film);
} finally {
  failures += (await server.stop()) === 0 ? 0 : 1;
  rmSync(folder, { recursive: true, force: true });
}
process.exit(failures > 0 ? 1 : 0);

function makeFilm() {
  const clip = join(folder, "clip.mkv");
  const sources = ["testsrc2=s=3840x2160:r=24:d=4,noise=alls=12:allf=t", "sine=300:r=48000:d=4"].flatMap((source) => ["-f", "lavfi", "-i", source]);
  execFileSync("ffmpeg", ["-nostdin", "-v", "error", ...sources, ...VIDEO, "-c:a", AUDIO_CODEC, "-ac", "6", clip]);
  return server.makeMedia(join("Codecs", "uhd.mkv"), ["-stream_loop", String(REPETITIONS - 1), "-i", clip, "-c", "copy"]);
}

/** Processor time of a process, its descendants and their ended children, seconds. */
function processorSeconds(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
    const own = fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS_PER_SECOND;
    const children = readdirSync(`/proc/${pid}/task`).flatMap((task) => readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").trim().split(" "));
    return children.filter(Boolean).reduce((sum, child) => sum + processorSeconds(child), own);
  } catch {
    return 0;
  }
}

/** Plays the film with one player; prints a row. */
async function playFilm(send, name, film) {
  const { start, player, decodes } = PLAYERS[name];
  let session = null;
  let [startedAt, usedBefore] = [0, 0];
  const open = async (probed) => {
    const capabilities = probed && { ...probed, hdr: ["hdr10"], codecs: [...probed.codecs, ...(decodes ?? [])] };
    session = await send("/api/stream/transcode/start", { mediaPath: film, forceTranscode: true, ...(capabilities ? { capabilities } : { player }) });
    [startedAt, usedBefore] = [Date.now(), processorSeconds(server.pid)];
    return server.base + session.signedPlaylistUrl;
  };
  const source = player ? { base: server.base, live: await open() } : { base: server.base, open };
  if (player) source.m3u = source.live;
  try {
    const seen = await watch(start, source, join(folder, name), { seconds: SEEN_SECONDS, startSeconds: 60, isFinite: true });
    const [wall, used] = [(Date.now() - startedAt) / 1000, processorSeconds(server.pid) - usedBefore];
    console.log(`${name}: ${session.decision.format}, video ${session.decision.video}, audio ${session.decision.audio}; first after `
      + `${seen.startSeconds.toFixed(1)} s, ${seen.stalls} stalls, longest step ${seen.longest.toFixed(2)} s; the server used `
      + `${used.toFixed(2)} s of processor time in ${wall.toFixed(0)} s: ${(used / wall * 100).toFixed(1)} % of a core`);
  } catch (fault) {
    failures += 1;
    console.log(`FAILED ${name}: ${fault.message.slice(0, 1500)}`);
  }
  if (session) await send(`/api/stream/transcode/${session.sessionId}`, undefined, "DELETE");
}
