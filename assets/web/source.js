// Getting an answer of `start` into a media element: the file itself, or its segments through hls.js.

import { at } from "./api.js";

/**
 * Plays `answer` in `media` from `position` seconds. `onfail({ kind, status, detail })` is called at most once, when
 * nothing more can be done here; `kind` is `unsupported`, `ended` (the session is gone) or `broken`.
 * Returns a function that lets go of the element.
 */
export async function attach(media, answer, position, onfail) {
  let letGo = () => {};
  let failed = false;
  const fail = (failure) => {
    if (failed) return;
    failed = true;
    onfail(failure);
  };
  const onerror = () => {
    if (!media.error) return;
    const unsupported = media.error.code >= MediaError.MEDIA_ERR_DECODE;
    fail({ kind: unsupported ? "unsupported" : "broken", detail: media.error.message });
  };
  if (answer.playbackMode === "direct") {
    media.addEventListener("error", onerror);
    media.src = at(answer.signedDirectUrl ?? answer.directUrl);
    startAt(media, position);
  } else {
    letGo = await attachPlaylist(media, answer.signedPlaylistUrl, position, fail, onerror);
  }
  return () => {
    failed = true;
    media.removeEventListener("error", onerror);
    letGo();
    media.removeAttribute("src");
    media.load();
  };
}

function startAt(media, position) {
  if (position <= 0) return;
  media.addEventListener("loadedmetadata", () => { media.currentTime = position; }, { once: true });
}

/**
 * Plays a channel's playlist in `media`: now, or from its first segment on. As `attach`, but asks again by itself while
 * the channel is slow.
 */
export async function attachLive(media, url, { fromStart }, onfail) {
  let failed = false;
  const fail = (failure) => {
    if (!failed) onfail(failure);
    failed = true;
  };
  const onerror = () => media.error && fail({ kind: "broken", detail: media.error.message });
  const letGo = await attachPlaylist(media, url, fromStart ? 0 : -1, fail, onerror);
  return () => {
    failed = true;
    media.removeEventListener("error", onerror);
    letGo();
    media.removeAttribute("src");
    media.load();
  };
}

/** Segments refused one after the other before it is given up: to ask on would only keep the server busy. */
const MOST_REFUSED = 10;

async function attachPlaylist(media, url, position, fail, onerror) {
  const [{ default: Hls }, { follow, ladder }] = await Promise.all([import("./vendor/hls.js"), import("./ladder.js")]);
  if (!Hls.isSupported()) {
    // Phones without Media Source Extensions read playlists themselves.
    media.addEventListener("error", onerror);
    media.src = at(url);
    startAt(media, position);
    return () => {};
  }
  const hls = new Hls({
    workerPath: at("/web/vendor/hls.worker.js"),
    startPosition: position,
    ...ladder(Hls),
    backBufferLength: 60,
    liveSyncDurationCount: 2,
    // A segment not made yet is held by the server for up to 20 s.
    fragLoadPolicy: {
      default: {
        maxTimeToFirstByteMs: 25_000,
        maxLoadTimeMs: 60_000,
        timeoutRetry: { maxNumRetry: 2, retryDelayMs: 0, maxRetryDelayMs: 0 },
        errorRetry: { maxNumRetry: 3, retryDelayMs: 500, maxRetryDelayMs: 4_000 },
      },
    },
  });
  let [recovered, refused] = [false, 0];
  hls.on(Hls.Events.FRAG_LOADED, () => { refused = 0; });
  hls.on(Hls.Events.ERROR, (_, data) => {
    if (data.details === Hls.ErrorDetails.FRAG_LOAD_ERROR) refused += 1;
    if (!data.fatal && refused < MOST_REFUSED) return;
    const status = data.response?.code ?? 0;
    if (data.type === Hls.ErrorTypes.MEDIA_ERROR && !recovered) {
      recovered = true;
      hls.recoverMediaError();
    } else {
      fail({ kind: status === 404 || status === 410 ? "ended" : "broken", status, detail: data.details });
    }
  });
  const rest = follow(hls, Hls);
  hls.loadSource(at(url));
  hls.attachMedia(media);
  return () => {
    rest();
    hls.destroy();
  };
}
