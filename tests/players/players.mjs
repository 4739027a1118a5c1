// Players that are one process: their progress and complaints.

import { spawn } from "node:child_process";
import { createConnection } from "node:net";
import { join } from "node:path";
import { waitUntil } from "./program.mjs";

/** Starts a process and collects its output; `stop` also ends its children. */
export function launch(command, args, env = {}) {
  const child = spawn(command, args, { env: { PATH: process.env.PATH, LANG: "C.UTF-8", ...env }, stdio: ["ignore", "pipe", "pipe"], detached: true });
  const [stderr, stdout] = [{ text: "" }, { text: "" }];
  let exit = null;
  child.on("error", (fault) => { exit = { fault }; });
  child.on("exit", (code) => { exit = { code }; });
  for (const [stream, log] of [[child.stderr, stderr], [child.stdout, stdout]]) stream.on("data", (piece) => { log.text = (log.text + piece).slice(-20_000); });
  return {
    child,
    complaints: () => stderr.text,
    stdout: () => stdout.text,
    /** Whether it has ended by itself without a failure. */
    hasEnded: () => exit?.code === 0,
    running() {
      if (exit) throw new Error(`${command} ended: ${JSON.stringify(exit)}\n${stderr.text.slice(-2000)}`);
    },
    async stop() {
      for (const signal of ["SIGTERM", "SIGKILL"]) {
        try {
          process.kill(-child.pid, signal);
        } catch {
          return;
        }
        await waitUntil(`${command} ends`, () => exit, 5).catch(() => {});
      }
    },
  };
}

/** The last number that a pattern finds on a process's stdout. */
const lastNumber = (process, pattern) => {
  process.running();
  return Number([...process.stdout().matchAll(pattern)].at(-1)?.[1] ?? 0);
};

/** ffmpeg, like a recorder: decodes everything, a segment at a time as it arrives. */
export async function ffmpeg(tv) {
  const process = launch("ffmpeg", ["-nostdin", "-hide_banner", "-v", "warning", "-nostats", "-progress", "pipe:1", "-i", tv.live,
    "-map", "0:v", "-map", "0:a", "-fps_mode", "passthrough", "-enc_time_base", "1:90000", "-f", "null", "-"]);
  const faults = () => process.complaints().split("\n").filter((line) => /error|invalid|non.?monoton|corrupt|missing|timestamp/i.test(line));
  return { ...process, stallSeconds: 8, progress: () => lastNumber(process, /out_time_us=(\d+)/g), verdict: () => faults().slice(0, 5) };
}

/** mpv with the M3U playlist, controlled by its IPC socket. */
export async function mpv(tv, folder) {
  const socket = join(folder, "socket");
  const process = launch("mpv", ["--no-config", "--vo=null", "--ao=null", "--msg-level=all=warn", `--input-ipc-server=${socket}`, tv.m3u]);
  const getProperty = (property) => new Promise((resolve) => {
    const connection = createConnection(socket);
    connection.on("error", () => resolve(null));
    connection.on("connect", () => connection.write(`${JSON.stringify({ command: ["get_property", property] })}\n`));
    let buffer = "";
    connection.on("data", (piece) => {
      buffer += piece;
      const answer = buffer.split("\n").find((text) => text.includes("request_id"));
      if (!answer) return;
      connection.destroy();
      resolve(JSON.parse(answer).data ?? null);
    });
  });
  return {
    ...process,
    async progress() {
      process.running();
      return getProperty("playback-time");
    },
    async verdict() {
      const dropped = await getProperty("decoder-frame-drop-count");
      return dropped ? [`${dropped} frames not decoded`] : [];
    },
  };
}

/** VLC with the M3U playlist, controlled by its HTTP interface. It refuses to run as root. */
export async function vlc(tv, folder) {
  const port = 20_000 + Math.floor(Math.random() * 20_000);
  const args = ["--intf", "dummy", "--extraintf", "http", "--http-host", "127.0.0.1", "--http-port", String(port), "--http-password", "players",
    "--vout", "xcb_x11", "--aout", "adummy", tv.m3u];
  // A hidden window, because VLC's dummy video output cannot change the video size.
  const screen = ["xvfb-run", "-a", "-s", "-screen 0 1280x720x24", "cvlc"];
  const environment = { HOME: folder, XDG_RUNTIME_DIR: folder };
  const root = process.getuid() === 0;
  const player = root ? launch("setpriv", ["--reuid", "65534", "--regid", "65534", "--clear-groups", ...screen, ...args], environment) : launch(screen[0], [...screen.slice(1), ...args], environment);
  const status = async () => {
    player.running();
    const headers = { authorization: `Basic ${Buffer.from(":players").toString("base64")}` };
    return fetch(`http://127.0.0.1:${port}/requests/status.json`, { headers }).then((answer) => answer.json()).catch(() => null);
  };
  return {
    ...player,
    progress: async () => (await status())?.stats?.displayedpictures,
    async verdict() {
      const { lostpictures, lostabuffers, demuxcorrupted } = (await status()).stats;
      return Object.entries({ lostpictures, lostabuffers, demuxcorrupted }).filter(([, count]) => count > 0).map(([what, count]) => `${what} ${count}`);
    },
  };
}

/** GStreamer's playbin, with `hlsdemux`. */
export const gstreamer = (tv) => playbin("playbin", tv);

/** GStreamer's playbin3, with `hlsdemux2`. */
export const hlsdemux2 = (tv) => playbin("playbin3", tv);

function playbin(element, tv) {
  const process = launch("gst-launch-1.0", ["-m", element, `uri=${tv.live}`, "video-sink=progressreport update-freq=1 ! fakesink sync=true",
    "audio-sink=fakesink sync=true"]);
  return { ...process, progress: () => lastNumber(process, /progressreport\d+ \(\d+:\d+:\d+\): (\d+)/g) };
}
