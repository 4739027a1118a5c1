// A film in Kodi: with its own demuxer, and with inputstream.adaptive.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { startKodi } from "./kodi-process.mjs";
import { waitUntil } from "./program.mjs";

/** Opens the playlist as a file: its demuxer is ffmpeg's. */
export function kodiFilm(source, folder) {
  return playFile(folder, source.live);
}

/** Opens the playlist through a file that names the add-on. */
export async function kodiAdaptiveFilm(source, folder) {
  const file = join(folder, "film.strm");
  const properties = ["inputstream=inputstream.adaptive", "inputstream.adaptive.manifest_type=hls", "mimetype=application/vnd.apple.mpegurl"];
  writeFileSync(file, `${properties.map((property) => `#KODIPROP:${property}\n`).join("")}${source.live}\n`);
  return playFile(folder, file, "inputstream.adaptive");
}

async function playFile(folder, file, addon = null) {
  const kodi = await startKodi(folder);
  try {
    if (addon) await kodi.call("Addons.SetAddonEnabled", { addonid: addon, enabled: true });
    await kodi.call("Player.Open", { item: { file } });
    await waitUntil("the film plays", kodi.isPlaying, 40);
    // Without hardware it says so of AV1, and decodes in software.
    const isFault = (line) => /error <general>.*(decod|demux|ffmpeg|AddOnLog)/i.test(line) && !/\[av1\]/.test(line);
    const faults = () => kodi.log().split("\n").filter(isFault).slice(0, 3);
    return {
      complaints: kodi.complaints,
      stop: kodi.stop,
      async progress() {
        const { hours, minutes, seconds, milliseconds } = (await kodi.streams())?.time ?? { hours: 0, minutes: 0, seconds: 0, milliseconds: 0 };
        return (hours * 60 + minutes) * 60 + seconds + milliseconds / 1000;
      },
      verdict: faults,
    };
  } catch (fault) {
    await kodi.stop();
    fault.message += `\n${kodi.complaints()}`;
    throw fault;
  }
}
