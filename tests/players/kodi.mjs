// Kodi with IPTV Simple, under Xvfb: lineup, groups, guide, a channel, catch-up.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { launch } from "./players.mjs";
import { until } from "./program.mjs";

const setting = (id, value) => `<setting id="${id}">${String(value).replaceAll("&", "&amp;")}</setting>`;

export async function kodi(tv, folder) {
  const port = 40_000 + Math.floor(Math.random() * 10_000);
  const user = join(folder, ".kodi/userdata");
  const simple = join(user, "addon_data/pvr.iptvsimple");
  mkdirSync(simple, { recursive: true });
  const settings = (path, lines) => writeFileSync(path, `<settings version="2">${lines.join("")}</settings>`);
  settings(join(user, "guisettings.xml"), [setting("services.webserver", true), setting("services.webserverport", port),
    setting("services.webserverauthentication", false), setting("general.addonupdates", 2)]);
  writeFileSync(join(user, "advancedsettings.xml"), "<advancedsettings version=\"1.0\"><loglevel>1</loglevel><splash>false</splash></advancedsettings>");
  // Its own settings are made into an instance's at the first start.
  for (const file of ["settings.xml", "instance-settings-1.xml"]) settings(join(simple, file), [setting("kodi_addon_instance_name", "Hearthcast"), setting("kodi_addon_instance_enabled", true),
    setting("m3uPathType", 1), setting("m3uUrl", tv.m3u), setting("m3uCache", false), setting("epgPathType", 1), setting("epgUrl", tv.xmltv),
    setting("epgCache", false), setting("catchupEnabled", true)]);

  const run = join(folder, "run");
  mkdirSync(run, { mode: 0o700 });
  const env = { HOME: folder, XDG_RUNTIME_DIR: run, LIBGL_ALWAYS_SOFTWARE: "1" };
  // It goes by its sound card's clock: one that swallows everything.
  const sound = launch("pulseaudio", ["-n", "--exit-idle-time=-1", "--load=module-null-sink", "--load=module-native-protocol-unix"], env);
  const player = launch("xvfb-run", ["-a", "-s", "-screen 0 480x270x24", "kodi", "--standalone", "--audio-backend=pulseaudio"], env);
  const ask = async (method, params = {}) => {
    player.running();
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
    const options = { method: "POST", headers: { "content-type": "application/json" }, body };
    const said = await fetch(`http://127.0.0.1:${port}/jsonrpc`, options).then((answer) => answer.json()).catch(() => ({}));
    return said.result;
  };
  const log = () => readFileSync(join(folder, ".kodi/temp/kodi.log"), "utf8");
  const complaints = () => log().split("\n").filter((line) => /SetCaching|GetPlayers|error/.test(line)).slice(-12).join("\n");
  const streams = () => ask("Player.GetProperties", { playerid: 1, properties: ["currentvideostream", "currentaudiostream", "time"] });
  const plays = async () => Boolean((await streams())?.currentvideostream?.codec && (await streams())?.currentaudiostream?.codec);
  /** How long it stopped to fetch, each time, ms: at a new picture size it does so for some 20 ms. */
  const waits = () => {
    const states = [...log().matchAll(/^(\S+ \S+) .*SetCaching - caching state (\d)/gm)].map(([, at, state]) => [Date.parse(at), Number(state)]);
    const began = states.map(([at, state], n) => (state > 0 && (states[n - 1]?.[1] ?? 0) === 0 ? at : null));
    return began.flatMap((at, n) => (at === null ? [] : [(states.slice(n).find(([, state]) => state === 0)?.[0] ?? Date.now()) - at]));
  };
  const stop = () => Promise.all([player.stop(), sound.stop()]);
  try {
    await until("kodi answers", () => ask("JSONRPC.Ping"), 120);
    await ask("Addons.SetAddonEnabled", { addonid: "pvr.iptvsimple", enabled: true });
    const lineup = () => ask("PVR.GetChannels", { channelgroupid: "alltv", properties: ["channelnumber", "broadcastnow"] });
    await until("kodi has the channel and its guide", async () => (await lineup())?.channels?.[0]?.broadcastnow?.title, 120);
    const [{ channelid, channelnumber, label }] = (await lineup()).channels;
    assert.deepEqual([label, channelnumber], ["Mixed", 1]);
    const { channelgroups } = await ask("PVR.GetChannelGroups", { channeltype: "tv" });
    assert.ok(channelgroups.some((group) => group.label === "Films"), JSON.stringify(channelgroups));

    const past = async () => (await ask("PVR.GetBroadcasts", { channelid, properties: ["title", "starttime", "wasactive", "isplayable", "hastimer"] }))?.broadcasts?.findLast((one) => one.wasactive && one.broadcastid > 0);
    // It has a name once the guide is in Kodi's own database.
    await until("a programme is over", past, 180);
    const { broadcastid } = await past();
    assert.equal(await ask("Player.Open", { item: { broadcastid } }), "OK");
    await until("catch-up plays", plays, 60);
    assert.match(log(), /GetPlayers\(\S+[?&]at=\d+/);

    assert.equal(await ask("Player.Open", { item: { channelid } }), "OK");
    await until("the channel plays", plays, 60);
    await until("it has enough", () => /SetCaching - caching state 0\b/.test(log().split("GetPlayers(").at(-1)), 60);
    const before = waits().length;
    const seconds = ({ hours, minutes, seconds: rest }) => (hours * 60 + minutes) * 60 + rest;
    let [turns, last] = [0, 0];
    return {
      said: complaints,
      stop,
      /** Its clock is of the programme that is on: it begins again at each. */
      async progress() {
        const at = seconds((await streams())?.time ?? { hours: 0, minutes: 0, seconds: 0 });
        if (at < last) turns += 1;
        last = at;
        return turns * 86_400 + at;
      },
      verdict: () => waits().slice(before).filter((wait) => wait > 500).map((wait) => `waited for ${wait} ms`),
    };
  } catch (fault) {
    await stop();
    fault.message += `\n${complaints()}`;
    throw fault;
  }
}
