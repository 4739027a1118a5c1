// Players that are one process: how far each is, and what it complains about.

import { spawn } from "node:child_process";
import { createConnection } from "node:net";
import { join } from "node:path";
import { until } from "./program.mjs";

/** A process with what it says; ends with its children. */
export function launch(command, args, env = {}) {
  const child = spawn(command, args, { env: { PATH: process.env.PATH, LANG: "C.UTF-8", ...env }, stdio: ["ignore", "pipe", "pipe"], detached: true });
  const [said, heard] = [{ text: "" }, { text: "" }];
  let exit = null;
  child.on("error", (fault) => { exit = { fault }; });
  child.on("exit", (code) => { exit = { code }; });
  for (const [stream, kept] of [[child.stderr, said], [child.stdout, heard]]) stream.on("data", (piece) => { kept.text = (kept.text + piece).slice(-20_000); });
  return {
    child,
    /** Its complaints, and its answers. */
    said: () => said.text,
    heard: () => heard.text,
    running() {
      if (exit) throw new Error(`${command} ended: ${JSON.stringify(exit)}\n${said.text.slice(-2000)}`);
    },
    async stop() {
      for (const signal of ["SIGTERM", "SIGKILL"]) {
        try {
          process.kill(-child.pid, signal);
        } catch {
          return;
        }
        await until(`${command} ends`, () => exit, 5).catch(() => {});
      }
    },
  };
}

/** The last number a pattern finds in what a process answers. */
const last = (process, pattern) => {
  process.running();
  return Number([...process.heard().matchAll(pattern)].at(-1)?.[1] ?? 0);
};

/** ffmpeg, as a recorder would: everything is decoded, in leaps as segments come. */
export async function ffmpeg(tv) {
  const process = launch("ffmpeg", ["-nostdin", "-hide_banner", "-v", "warning", "-nostats", "-progress", "pipe:1", "-i", tv.live,
    "-map", "0:v", "-map", "0:a", "-fps_mode", "passthrough", "-enc_time_base", "1:90000", "-f", "null", "-"]);
  const faults = () => process.said().split("\n").filter((line) => /error|invalid|non.?monoton|corrupt|missing|timestamp/i.test(line));
  return { ...process, still: 8, progress: () => last(process, /out_time_us=(\d+)/g), verdict: () => faults().slice(0, 5) };
}

/** mpv on the list of channels, asked over its socket. */
export async function mpv(tv, folder) {
  const socket = join(folder, "socket");
  const process = launch("mpv", ["--no-config", "--vo=null", "--ao=null", "--msg-level=all=warn", `--input-ipc-server=${socket}`, tv.m3u]);
  const ask = (property) => new Promise((resolve) => {
    const line = createConnection(socket);
    line.on("error", () => resolve(null));
    line.on("connect", () => line.write(`${JSON.stringify({ command: ["get_property", property] })}\n`));
    let said = "";
    line.on("data", (piece) => {
      said += piece;
      const answer = said.split("\n").find((text) => text.includes("request_id"));
      if (!answer) return;
      line.destroy();
      resolve(JSON.parse(answer).data ?? null);
    });
  });
  return {
    ...process,
    async progress() {
      process.running();
      return ask("playback-time");
    },
    async verdict() {
      const dropped = await ask("decoder-frame-drop-count");
      return dropped ? [`${dropped} pictures not decoded`] : [];
    },
  };
}

/** VLC on the list of channels, asked over its own page. It does not run as root. */
export async function vlc(tv, folder) {
  const port = 20_000 + Math.floor(Math.random() * 20_000);
  const args = ["--intf", "dummy", "--extraintf", "http", "--http-host", "127.0.0.1", "--http-port", String(port), "--http-password", "players",
    "--vout", "xcb_x11", "--aout", "adummy", tv.m3u];
  // A window, if one that nobody sees: its output that shows nothing cannot change the size of its pictures.
  const screen = ["xvfb-run", "-a", "-s", "-screen 0 1280x720x24", "cvlc"];
  const own = { HOME: folder, XDG_RUNTIME_DIR: folder };
  const root = process.getuid() === 0;
  const player = root ? launch("setpriv", ["--reuid", "65534", "--regid", "65534", "--clear-groups", ...screen, ...args], own) : launch(screen[0], [...screen.slice(1), ...args], own);
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

/** GStreamer's playbin. */
export async function gstreamer(tv) {
  const process = launch("gst-launch-1.0", ["-m", "playbin", `uri=${tv.live}`, "video-sink=progressreport update-freq=1 ! fakesink sync=true",
    "audio-sink=fakesink sync=true"]);
  return { ...process, progress: () => last(process, /progressreport\d+ \(\d+:\d+:\d+\): (\d+)/g) };
}
