// The playback info of a file.

import * as api from "./api.js";
import { describeMethod, streamEntries } from "./decision.js";
import { TEXT } from "./strings.js";

/** `[name, value]` pairs about the playback of a `Player`; those without a value are left out where they are shown. */
export async function collectInfo({ media, session, playback, info }) {
  if (!media) return [];
  const labels = TEXT.info;
  const frames = media.getVideoPlaybackQuality?.();
  const bufferedEnd = [...Array(media.buffered.length).keys()].map((n) => media.buffered.end(n)).find((end) => end >= media.currentTime);
  const status = session && (await api.getSessionStatus(session).catch(() => null));
  const diagnostics = status?.diagnostics;
  return [
    [labels.method, playback && describeMethod(playback)],
    ...streamEntries(playback?.decision, info.streams),
    [labels.resolution, media.videoWidth > 0 && `${media.videoWidth}×${media.videoHeight}`],
    [labels.file, [info.probe.container, ...info.streams.map(({ codec }) => codec)].join(", ")],
    [labels.buffered, bufferedEnd !== undefined && TEXT.preciseSeconds(bufferedEnd - media.currentTime)],
    [labels.dropped, frames && TEXT.framesDropped(frames.droppedVideoFrames, frames.totalVideoFrames)],
    [labels.encoder, diagnostics?.encoder],
    [labels.conversionSpeed, diagnostics?.speed && TEXT.rate(Math.round(10 * diagnostics.speed) / 10)],
  ];
}
