// Kodi with IPTV Simple, under Xvfb: lineup, groups, guide, a channel, catch-up.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { launch } from "./players.mjs";
import { waitUntil } from "./program.mjs";

const setting = (id, value) => `<setting id="${id}">${String(value).replaceAll("&", "&amp;")}</setting>`;

export async function kodi(tv, folder) {
  const port = 40_000 + Math.floor(Math.random() * 10_000);
  const userdata = join(folder, ".kodi/userdata");
  const addonFolder = join(userdata, "addon_data/pvr.iptvsimple");
  mkdirSync(addonFolder, { recursive: true });
  const settings = (path, lines) => writeFileSync(path, `<settings version="2">${lines.join("")}</settings>`);
  settings(join(userdata, "guisettings.xml"), [setting("services.webserver", true), setting("services.webserverport", port),
    setting("services.webserverauthentication", false), setting("general.addonupdates", 2)]);
  writeFileSync(join(userdata, "advancedsettings.xml"), "<advancedsettings version=\"1.0\"><loglevel>1</loglevel><splash>false</splash></advancedsettings>");
  // The first start migrates the add-on's settings to those of an instance.
  for (const file of ["settings.xml", "instance-settings-1.xml"]) settings(join(addonFolder, file), [setting("kodi_addon_instance_name", "Hearthcast"), setting("kodi_addon_instance_enabled", true),
    setting("m3uPathType", 1), setting("m3uUrl", tv.m3u), setting("m3uCache", false), setting("epgPathType", 1), setting("epgUrl", tv.xmltv),
    setting("epgCache", false), setting("catchupEnabled", true)]);

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
  const recentComplaints = () => log().split("\n").filter((line) => /SetCaching|GetPlayers|error/.test(line)).slice(-12).join("\n");
  const streams = () => call("Player.GetProperties", { playerid: 1, properties: ["currentvideostream", "currentaudiostream", "time"] });
  const isPlaying = async () => Boolean((await streams())?.currentvideostream?.codec && (await streams())?.currentaudiostream?.codec);
  /** The durations of its buffering stops, ms: a new video size causes one of about 20 ms. */
  const stallDurations = () => {
    const states = [...log().matchAll(/^(\S+ \S+) .*SetCaching - caching state (\d)/gm)].map(([, at, state]) => [Date.parse(at), Number(state)]);
    const began = states.map(([at, state], n) => (state > 0 && (states[n - 1]?.[1] ?? 0) === 0 ? at : null));
    return began.flatMap((at, n) => (at === null ? [] : [(states.slice(n).find(([, state]) => state === 0)?.[0] ?? Date.now()) - at]));
  };
  const stop = () => Promise.all([player.stop(), audioServer.stop()]);
  try {
    await waitUntil("kodi answers", () => call("JSONRPC.Ping"), 120);
    await call("Addons.SetAddonEnabled", { addonid: "pvr.iptvsimple", enabled: true });
    const lineup = () => call("PVR.GetChannels", { channelgroupid: "alltv", properties: ["channelnumber", "broadcastnow"] });
    await waitUntil("kodi has the channel and its guide", async () => (await lineup())?.channels?.[0]?.broadcastnow?.title, 120);
    const [{ channelid, channelnumber, label }] = (await lineup()).channels;
    assert.deepEqual([label, channelnumber], ["Mixed", 1]);
    const { channelgroups } = await call("PVR.GetChannelGroups", { channeltype: "tv" });
    assert.ok(channelgroups.some((group) => group.label === "Films"), JSON.stringify(channelgroups));

    const findPastProgramme = async () => (await call("PVR.GetBroadcasts", { channelid, properties: ["title", "starttime", "wasactive", "isplayable", "hastimer"] }))?.broadcasts?.findLast((one) => one.wasactive && one.broadcastid > 0);
    // A programme has an id once Kodi's database contains the guide.
    await waitUntil("a programme is over", findPastProgramme, 180);
    const { broadcastid } = await findPastProgramme();
    assert.equal(await call("Player.Open", { item: { broadcastid } }), "OK");
    await waitUntil("catch-up plays", isPlaying, 60);
    assert.match(log(), /GetPlayers\(\S+[?&]at=\d+/);

    assert.equal(await call("Player.Open", { item: { channelid } }), "OK");
    await waitUntil("the channel plays", isPlaying, 60);
    await waitUntil("the buffer is full", () => /SetCaching - caching state 0\b/.test(log().split("GetPlayers(").at(-1)), 60);
    const before = stallDurations().length;
    const seconds = ({ hours, minutes, seconds: rest }) => (hours * 60 + minutes) * 60 + rest;
    let [programmeCount, last] = [0, 0];
    return {
      complaints: recentComplaints,
      stop,
      /** Kodi's clock restarts at every programme. */
      async progress() {
        const at = seconds((await streams())?.time ?? { hours: 0, minutes: 0, seconds: 0 });
        if (at < last) programmeCount += 1;
        last = at;
        return programmeCount * 86_400 + at;
      },
      verdict: () => stallDurations().slice(before).filter((wait) => wait > 500).map((wait) => `buffered for ${wait} ms`),
    };
  } catch (fault) {
    await stop();
    fault.message += `\n${recentComplaints()}`;
    throw fault;
  }
}
