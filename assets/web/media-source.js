// Attaches the response of a start request to a media element: the file itself, or its segments by hls.js.

import { resolvePath } from "./api.js";

/**
 * Plays `playback` in `media` from `position` seconds. `onFailure({ kind, status, detail })` is called at most once, when
 * nothing more can be done here; `kind` is `unsupported`, `ended` (the session is gone) or `broken`.
 * Returns a function that detaches the element.
 */
export async function attach(media, playback, position, onFailure) {
  let detachPlaylist = () => {};
  const failure = firstFailure(onFailure);
  const onerror = () => {
    if (!media.error) return;
    const unsupported = media.error.code >= MediaError.MEDIA_ERR_DECODE;
    failure.report({ kind: unsupported ? "unsupported" : "broken", detail: media.error.message });
  };
  if (playback.playbackMode === "direct") {
    media.addEventListener("error", onerror);
    media.src = resolvePath(playback.signedDirectUrl ?? playback.directUrl);
    detachPlaylist = seekWhenLoaded(media, position);
  } else {
    detachPlaylist = await attachPlaylist(media, playback.signedPlaylistUrl, position, failure.report, onerror);
  }
  return detacher(media, failure, onerror, detachPlaylist);
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

/** Plays a channel's playlist in `media`, live or from its first segment. The rest is as in `attach`. */
export async function attachLive(media, url, { fromStart }, onFailure) {
  const failure = firstFailure(onFailure);
  const onerror = () => media.error && failure.report({ kind: "broken", detail: media.error.message });
  const detachPlaylist = await attachPlaylist(media, url, fromStart ? 0 : -1, failure.report, onerror);
  return detacher(media, failure, onerror, detachPlaylist);
}

/** Consecutive segment errors before giving up: more retries would only keep the server busy. */
const MAX_FAILED_SEGMENTS = 10;

async function attachPlaylist(media, url, position, fail, onerror) {
  const [{ default: Hls }, { abrConfig, stepDownOnStall }] = await Promise.all([import("./vendor/hls.js"), import("./ladder.js")]);
  if (!Hls.isSupported()) {
    // Phones without Media Source Extensions play HLS natively.
    media.addEventListener("error", onerror);
    media.src = resolvePath(url);
    return seekWhenLoaded(media, position);
  }
  const hls = new Hls({
    workerPath: resolvePath("/web/vendor/hls.worker.js"),
    startPosition: position,
    ...abrConfig(Hls),
    backBufferLength: 60,
    liveSyncDurationCount: 2,
    // The server holds a request for a segment that is still being encoded for up to 20 s.
    fragLoadPolicy: {
      default: {
        maxTimeToFirstByteMs: 25_000,
        maxLoadTimeMs: 60_000,
        timeoutRetry: { maxNumRetry: 2, retryDelayMs: 0, maxRetryDelayMs: 0 },
        errorRetry: { maxNumRetry: 3, retryDelayMs: 500, maxRetryDelayMs: 4_000 },
      },
    },
  });
  let [hasRecovered, failedSegments] = [false, 0];
  hls.on(Hls.Events.FRAG_LOADED, () => { failedSegments = 0; });
  hls.on(Hls.Events.ERROR, (_, data) => {
    if (data.details === Hls.ErrorDetails.FRAG_LOAD_ERROR) failedSegments += 1;
    if (!data.fatal && failedSegments < MAX_FAILED_SEGMENTS) return;
    const status = data.response?.code ?? 0;
    if (data.type === Hls.ErrorTypes.MEDIA_ERROR && !hasRecovered) {
      hasRecovered = true;
      hls.recoverMediaError();
    } else {
      fail({ kind: status === 404 || status === 410 ? "ended" : "broken", status, detail: data.details });
    }
  });
  const stopStepDown = stepDownOnStall(hls, Hls);
  hls.loadSource(resolvePath(url));
  hls.attachMedia(media);
  return () => {
    stopStepDown();
    hls.destroy();
  };
}
