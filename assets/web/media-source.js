// Attaches the response of a start request to a media element: the file itself, or its segments by hls.js.

import { resolvePath } from "./api.js";

/**
 * Plays `playback` in `media` from `position` seconds. `onFailure({ kind })` is called at most once, when
 * nothing more can be done here; `kind` is `unsupported`, `ended` (the session is gone) or `broken`.
 * Returns a function that detaches the element, and the session's renditions or null.
 */
export async function attach(media, playback, position, onFailure) {
  let [detachPlaylist, renditions] = [() => {}, null];
  const failure = firstFailure(onFailure);
  const onerror = () => {
    if (!media.error) return;
    failure.report({ kind: media.error.code >= MediaError.MEDIA_ERR_DECODE ? "unsupported" : "broken" });
  };
  if (playback.playbackMode === "direct") {
    media.addEventListener("error", onerror);
    media.src = resolvePath(playback.signedDirectUrl ?? playback.directUrl);
    detachPlaylist = seekWhenLoaded(media, position);
  } else {
    const handlers = { fail: failure.report, onerror };
    ({ detachPlaylist, renditions } = await attachPlaylist(media, playback.signedPlaylistUrl, position, handlers, playback.renditions));
  }
  return { detach: detacher(media, failure, onerror, detachPlaylist), renditions };
}

/** Calls `onFailure` with the first failure only, and not after `ignore`. */
function firstFailure(onFailure) {
  let isOver = false;
  const ignore = () => { isOver = true; };
  const report = (failure) => {
    if (isOver) return;
    ignore();
    onFailure(failure);
  };
  return { report, ignore };
}

function detacher(media, failure, onerror, detachPlaylist) {
  return () => {
    failure.ignore();
    media.removeEventListener("error", onerror);
    detachPlaylist();
    media.removeAttribute("src");
    media.load();
  };
}

/** Returns a function that cancels the seek. */
function seekWhenLoaded(media, position) {
  const seek = () => { media.currentTime = position; };
  if (position > 0) media.addEventListener("loadedmetadata", seek, { once: true });
  return () => media.removeEventListener("loadedmetadata", seek);
}

/**
 * Plays a channel's playlist in `media`, live or from its first segment. `onRenditions` is called once if there are tracks to
 * choose from. Returns a function that detaches it.
 */
export async function attachLive(media, url, { fromStart, onRenditions }, onFailure) {
  const failure = firstFailure(onFailure);
  const onerror = () => media.error && failure.report({ kind: "broken" });
  const { detachPlaylist } = await attachPlaylist(media, url, fromStart ? 0 : -1, { fail: failure.report, onerror, onRenditions });
  return detacher(media, failure, onerror, detachPlaylist);
}

/** Consecutive segment errors before giving up: more retries would only keep the server busy. */
const MAX_FAILED_SEGMENTS = 10;

/**
 * @param {HTMLMediaElement} media
 * @param {string} url
 * @param {number} position  seconds; -1 for the live edge
 * @param {{ fail: (failure: object) => void, onerror: () => void, onRenditions?: (renditions: object) => void }} handlers
 * @param {object} [description]  `renditions` of the start response, if the session has any
 */
async function attachPlaylist(media, url, position, { fail, onerror, onRenditions }, description) {
  const [hlsModule, { abrConfig, stepDownOnStall }, { Renditions, describeTracks }] =
    await Promise.all([import("./vendor/hls.js"), import("./ladder.js"), import("./renditions.js")]);
  /** @type {any} */
  const Hls = hlsModule.default;
  if (!Hls.isSupported()) {
    // Phones without Media Source Extensions play HLS natively.
    media.addEventListener("error", onerror);
    media.src = resolvePath(url);
    return { detachPlaylist: seekWhenLoaded(media, position), renditions: null };
  }
  const hls = new Hls({
    workerPath: resolvePath("/web/vendor/hls.worker.js"),
    startPosition: position,
    ...abrConfig(Hls),
    backBufferLength: 60,
    liveSyncDurationCount: 2,
    renderTextTracksNatively: false, // `renditions.js` does it.
    // The server holds a request for a segment that is still being encoded for up to 20 s.
    fragLoadPolicy: {
      default: {
        maxTimeToFirstByteMs: 25_000,
        maxLoadTimeMs: 60_000,
        timeoutRetry: { maxNumRetry: 2, retryDelayMs: 0, maxRetryDelayMs: 0 },
        errorRetry: {
          maxNumRetry: 3,
          retryDelayMs: 500,
          maxRetryDelayMs: 4_000,
          // A server that does not answer may be starting again, and sessions continue then.
          shouldRetry: (_, count, _isTimeout, response, retry) => (response?.code === 0 ? count < 8 : retry),
        },
      },
    },
  });
  let hasRecovered = false;
  const failedSegments = { main: 0, audio: 0 }; // Without subtitles playback continues.
  hls.on(Hls.Events.FRAG_LOADED, (_, { frag }) => { failedSegments[frag.type] = 0; });
  hls.on(Hls.Events.ERROR, (_, data) => {
    if (data.details === Hls.ErrorDetails.FRAG_LOAD_ERROR) failedSegments[data.frag.type] += 1;
    if (!data.fatal && Math.max(failedSegments.main, failedSegments.audio) < MAX_FAILED_SEGMENTS) return;
    const isMediaError = data.type === Hls.ErrorTypes.MEDIA_ERROR;
    if (isMediaError && !hasRecovered && data.details !== Hls.ErrorDetails.MANIFEST_INCOMPATIBLE_CODECS_ERROR) {
      hasRecovered = true;
      hls.recoverMediaError();
    } else {
      const isGone = [404, 410].includes(data.response?.code);
      fail({ kind: isMediaError ? "unsupported" : isGone ? "ended" : "broken" });
    }
  });
  let renditions = description ? new Renditions(hls, Hls, media, description) : null;
  if (onRenditions) {
    hls.once(Hls.Events.MANIFEST_PARSED, (_, manifest) => {
      const tracks = describeTracks(manifest);
      if (tracks.audio.length < 2 && tracks.subtitles.length === 0) return;
      renditions = new Renditions(hls, Hls, media, tracks);
      onRenditions(renditions);
    });
  }
  const stopStepDown = stepDownOnStall(hls, Hls);
  hls.loadSource(resolvePath(url));
  hls.attachMedia(media);
  const detachPlaylist = () => {
    stopStepDown();
    renditions?.close();
    hls.destroy();
  };
  return { detachPlaylist, renditions };
}
