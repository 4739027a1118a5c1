// Kodi reads the exported guide: `guide.mjs PROGRAM`. The channel has the demo's series and a film, whose descriptions come from
// NFO files. Every property that the XMLTV has must arrive in Kodi's guide.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAdmin } from "./admin-client.mjs";
import { writePvrSettings } from "./kodi.mjs";
import { startKodi } from "./kodi-process.mjs";
import { startDemo, waitUntil } from "./program.mjs";

/** Properties of a programme in Kodi's answers. */
const PROPERTIES = ["title", "plot", "genre", "episodename", "episodenum", "firstaired", "thumbnail", "cast", "director", "year", "starttime", "endtime"];

const folder = mkdtempSync(join(tmpdir(), "hearthcast-guide-"));
const server = await startDemo(process.argv[2]);
let failed = false;
try {
  const send = await createAdmin(server);
  await waitUntil("the series is in the catalogue", async () => (await countEpisodes(send)) === 3, 240);
  const tv = await createChannel(send);
  writePvrSettings(tv, folder);
  const kodi = await startKodi(folder);
  try {
    await checkGuide(kodi, await (await fetch(tv.xmltv)).text());
  } catch (fault) {
    console.error(kodi.complaints());
    throw fault;
  } finally {
    await kodi.stop();
  }
} catch (fault) {
  failed = true;
  console.error(fault);
} finally {
  failed ||= (await server.stop()) !== 0;
  rmSync(folder, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);

/** The episodes that the catalogue has. */
async function countEpisodes(send) {
  return (await send("/api/library/items?kind=episode", undefined, "GET")).total;
}

/** Creates the channel; returns the links of a stream token. */
async function createChannel(send) {
  const items = ["Series/The Lighthouse", "Films/Ember (2026).mp4"].map((path) => ({ path: join(server.media, path), recursive: true }));
  const { channel: { id } } = await send("/api/livetv/channels", { name: "Described", number: 1, scheduleMode: "sequential", guide: { minProgrammeSeconds: 0 }, items });
  const { secret } = await send("/api/livetv/tokens", { name: "guide", channelIds: [id] });
  const withToken = (path) => `${server.base}${path}?token=${secret}`;
  return { m3u: withToken("/api/livetv/m3u"), xmltv: withToken("/api/livetv/xmltv") };
}

/** The programmes of an XMLTV document, by start as Kodi writes it. */
function parseProgrammes(xmltv) {
  const unescape = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&apos;", "'").replaceAll("&amp;", "&");
  return new Map(xmltv.split("<programme ").slice(1).map((text) => {
    const all = (name) => [...text.matchAll(new RegExp(`<${name}(?: [^>]*)?>([^<]*)<`, "g"))].map((match) => unescape(match[1]));
    const [, year, month, day, hour, minute, second] = text.match(/start="(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d) \+0000"/);
    const episode = text.match(/system="xmltv_ns">\d*\.(\d+)\./);
    return [`${year}-${month}-${day} ${hour}:${minute}:${second}`, {
      title: all("title")[0], subTitle: all("sub-title")[0], plot: all("desc")[0], directors: all("director"), actors: all("actor"),
      categories: all("category"), episode: episode && Number(episode[1]) + 1, hasIcon: /<icon /.test(text),
    }];
  }));
}

/** Compares what Kodi shows with the document. */
async function checkGuide({ call }, xmltv) {
  await call("Addons.SetAddonEnabled", { addonid: "pvr.iptvsimple", enabled: true });
  const lineup = () => call("PVR.GetChannels", { channelgroupid: "alltv", properties: ["broadcastnow"] });
  await waitUntil("kodi has the channel and its guide", async () => (await lineup())?.channels?.[0]?.broadcastnow?.title, 180);
  const [{ channelid }] = (await lineup()).channels;
  const { broadcasts } = await call("PVR.GetBroadcasts", { channelid, properties: PROPERTIES });
  const programmes = parseProgrammes(xmltv);
  const compared = { episodes: 0, films: 0 };
  for (const shown of broadcasts) {
    const expected = programmes.get(shown.starttime);
    if (!expected) continue; // The document was read a moment earlier than Kodi's.
    assert.equal(shown.title, expected.title);
    assert.equal(shown.plot, expected.plot ?? "");
    assert.equal(shown.episodename, expected.subTitle ?? "");
    for (const [name, people] of [["director", expected.directors], ["cast", expected.actors]]) {
      for (const person of people) assert.ok(JSON.stringify(shown[name]).includes(person), `${person} in ${JSON.stringify(shown)}`);
    }
    if (expected.categories.length > 0) assert.ok(shown.genre.length > 0, JSON.stringify(shown));
    if (expected.hasIcon) assert.match(decodeURIComponent(shown.thumbnail), /artwork/);
    if (expected.episode) assert.equal(shown.episodenum, expected.episode);
    compared[expected.episode ? "episodes" : "films"] += 1;
  }
  console.log(`kodi: ${compared.episodes} episodes and ${compared.films} films as in the document, of ${broadcasts.length} programmes`);
  assert.ok(compared.episodes > 3 && compared.films > 1);
}
