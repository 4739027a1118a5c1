// Kodi under Xvfb, controlled by JSON-RPC.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { launch } from "./players.mjs";
import { waitUntil } from "./program.mjs";

export const setting = (id, value) => `<setting id="${id}">${String(value).replaceAll("&", "&amp;")}</setting>`;

export function writeSettings(path, lines) {
  writeFileSync(path, `<settings version="2">${lines.join("")}</settings>`);
}

/** Its folder of user data. */
export const userdata = (folder) => join(folder, ".kodi/userdata");

/** Starts Kodi with `folder` as its home; resolves when it answers. */
export async function startKodi(folder) {
  const port = 40_000 + Math.floor(Math.random() * 10_000);
  mkdirSync(userdata(folder), { recursive: true });
  writeSettings(join(userdata(folder), "guisettings.xml"), [setting("services.webserver", true), setting("services.webserverport", port),
    setting("services.webserverauthentication", false), setting("general.addonupdates", 2)]);
  writeFileSync(join(userdata(folder), "advancedsettings.xml"), "<advancedsettings version=\"1.0\"><loglevel>1</loglevel><splash>false</splash></advancedsettings>");
  const run = join(folder, "run");
  mkdirSync(run, { mode: 0o700 });
  const env = { HOME: folder, XDG_RUNTIME_DIR: run, LIBGL_ALWAYS_SOFTWARE: "1" };
  // Kodi plays by the clock of its audio device, here a null sink.
  const audioServer = launch("pulseaudio", ["-n", "--exit-idle-time=-1", "--load=module-null-sink", "--load=module-native-protocol-unix"], env);
  const player = launch("xvfb-run", ["-a", "-s", "-screen 0 480x270x24", "kodi", "--standalone", "--audio-backend=pulseaudio"], env);
  const call = async (method, params = {}) => {
    player.running();
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
    const options = { method: "POST", headers: { "content-type": "application/json" }, body };
    const response = await fetch(`http://127.0.0.1:${port}/jsonrpc`, options).then((answer) => answer.json()).catch(() => ({}));
    return response.result;
  };
  const log = () => readFileSync(join(folder, ".kodi/temp/kodi.log"), "utf8");
  const streams = () => call("Player.GetProperties", { playerid: 1, properties: ["currentvideostream", "currentaudiostream", "time"] });
  const kodi = {
    call,
    log,
    streams,
    isPlaying: async () => Boolean((await streams())?.currentvideostream?.codec && (await streams())?.currentaudiostream?.codec),
    complaints: () => log().split("\n").filter((line) => /SetCaching|GetPlayers|error/.test(line)).slice(-12).join("\n"),
    stop: () => Promise.all([player.stop(), audioServer.stop()]),
  };
  try {
    await waitUntil("kodi answers", () => call("JSONRPC.Ping"), 120);
    return kodi;
  } catch (fault) {
    await kodi.stop();
    throw fault;
  }
}
