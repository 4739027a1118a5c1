// Kodi with IPTV Simple, under Xvfb: lineup, groups, guide, a channel, catch-up.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setting, startKodi, userdata, writeSettings } from "./kodi-process.mjs";
import { waitUntil } from "./program.mjs";

/** Settings of IPTV Simple for the links of a lineup and its guide. */
export function writePvrSettings(tv, folder) {
  const addonFolder = join(userdata(folder), "addon_data/pvr.iptvsimple");
  mkdirSync(addonFolder, { recursive: true });
  // The first start migrates the add-on's settings to those of an instance.
  for (const file of ["settings.xml", "instance-settings-1.xml"]) writeSettings(join(addonFolder, file), [setting("kodi_addon_instance_name", "Hearthcast"), setting("kodi_addon_instance_enabled", true),
    setting("m3uPathType", 1), setting("m3uUrl", tv.m3u), setting("m3uCache", false), setting("epgPathType", 1), setting("epgUrl", tv.xmltv),
    setting("epgCache", false), setting("catchupEnabled", true)]);
}

export async function kodi(tv, folder) {
  writePvrSettings(tv, folder);
  const { call, log, streams, isPlaying, complaints, stop } = await startKodi(folder);
  /** The durations of its buffering stops, ms: a new video size causes one of about 20 ms. */
  const stallDurations = () => {
    const states = [...log().matchAll(/^(\S+ \S+) .*SetCaching - caching state (\d)/gm)].map(([, at, state]) => [Date.parse(at), Number(state)]);
    const began = states.map(([at, state], n) => (state > 0 && (states[n - 1]?.[1] ?? 0) === 0 ? at : null));
    return began.flatMap((at, n) => (at === null ? [] : [(states.slice(n).find(([, state]) => state === 0)?.[0] ?? Date.now()) - at]));
  };
  try {
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
      complaints,
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
    fault.message += `\n${complaints()}`;
    throw fault;
  }
}
