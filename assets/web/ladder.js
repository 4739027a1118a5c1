// Adaptive bitrate (ABR): tells a slow network from a slow server.

/** The bandwidth assumed before anything was loaded: a home network, bit/s. */
const DEFAULT_BITS_PER_SECOND = 20_000_000;

/** The time a server takes to answer with a segment that exists, ms. */
const RESPONSE_MS = 50;

/** The buffer needed before a higher quality is tried, seconds. */
const UPGRADE_BUFFER_SECONDS = 10;

/** Stalls this soon after a start or a seek are ignored because the buffer is still filling, seconds. */
const STARTUP_SECONDS = 8;

/** A higher quality is tried again after this time, ms; the time doubles with each failure. */
const RETRY_MS = 120_000;

let lastBandwidth = null; // The bandwidth when something was last played.

/** The buffered time after the current position, seconds. */
function bufferedAhead({ buffered, currentTime }) {
  for (let n = 0; n < buffered.length; n += 1) {
    if (buffered.start(n) <= currentTime + 0.1 && currentTime < buffered.end(n)) return buffered.end(n) - currentTime;
  }
  return 0;
}

/** The hls.js settings for ABR. */
export function abrConfig(Hls) {
  // The wait for a segment that is still being encoded says nothing about bandwidth.
  class WaitAwareLoader extends Hls.DefaultConfig.loader {
    load(context, config, callbacks) {
      const onSuccess = (response, stats, ...rest) => {
        stats.loading.start = Math.max(stats.loading.start, stats.loading.first - RESPONSE_MS);
        callbacks.onSuccess(response, stats, ...rest);
      };
      super.load(context, config, { ...callbacks, onSuccess });
    }
  }
  // The server first has to start encoding a higher quality; playback does not wait for it.
  class CautiousAbrController extends Hls.DefaultConfig.abrController {
    get nextAutoLevel() {
      const [nextLevel, level, media] = [super.nextAutoLevel, this.hls.loadLevel, this.hls.media];
      const isHealthy = !this.hls.levels[level]?.fragmentError; // After load errors, any level is better.
      return level >= 0 && nextLevel > level && isHealthy && media && bufferedAhead(media) < UPGRADE_BUFFER_SECONDS ? level : nextLevel;
    }

    set nextAutoLevel(level) {
      super.nextAutoLevel = level;
    }
  }
  return {
    fLoader: WaitAwareLoader,
    abrController: CautiousAbrController,
    abrEwmaDefaultEstimate: lastBandwidth ?? DEFAULT_BITS_PER_SECOND,
    abrEwmaDefaultEstimateMax: DEFAULT_BITS_PER_SECOND,
  };
}

/**
 * Lowers the quality when the server encodes slower than real time, which hls.js cannot know. Returns a function that stops
 * it.
 */
export function stepDownOnStall(hls, Hls) {
  let [retryTimer, retryDelay, requested, startedAt] = [null, RETRY_MS, null, 0];
  hls.on(Hls.Events.FRAG_LOADING, (_, { frag }) => {
    if (frag.type !== "main") return; // A rendition of audio or text has no lower quality.
    if (frag.sn - requested?.sn !== 1 && frag.sn !== requested?.sn) startedAt = frag.start;
    requested = frag;
  });
  hls.on(Hls.Events.ERROR, (_, { details, fatal }) => {
    if (fatal || details !== Hls.ErrorDetails.BUFFER_STALLED_ERROR) return;
    // If the response has started, the network is slow, not the server.
    const isReceiving = !requested || requested.stats.loading.first > 0;
    if (isReceiving || hls.media.currentTime - startedAt < STARTUP_SECONDS || hls.loadLevel <= 0) return;
    hls.autoLevelCapping = hls.loadLevel - 1;
    clearTimeout(retryTimer);
    retryTimer = setTimeout(() => { hls.autoLevelCapping = -1; }, retryDelay);
    retryDelay *= 2;
  });
  return () => {
    clearTimeout(retryTimer);
    if (hls.bandwidthEstimate > 0) lastBandwidth = Math.min(DEFAULT_BITS_PER_SECOND, hls.bandwidthEstimate);
  };
}
