// Sizes that change with the line: what the line carries is told from what the server takes to make.

/** Taken for a line nothing was loaded over yet, bit/s: a home's. */
const HOME = 20_000_000;

/** What a connection takes to answer with something that is there, ms. */
const ANSWER_MS = 50;

/** So much lies ahead before a larger size is tried, seconds. */
const ENOUGH = 10;

/** A stop this soon after a beginning or a jump is none: what plays has still to fill up, seconds. */
const SETTLED = 8;

/** A larger size is tried again after so long, ms; after twice as long each time it was too much. */
const AGAIN_MS = 120_000;

let known = null; // What the line carried when something was last played.

/** What lies ahead of the place that plays, seconds. */
function ahead({ buffered, currentTime }) {
  for (let n = 0; n < buffered.length; n += 1) {
    if (buffered.start(n) <= currentTime + 0.1 && currentTime < buffered.end(n)) return buffered.end(n) - currentTime;
  }
  return 0;
}

/** What hls.js is to be made with. */
export function ladder(Hls) {
  // A segment that still has to be made is waited for: the wait says nothing about the line.
  class Loader extends Hls.DefaultConfig.loader {
    load(context, config, callbacks) {
      const onSuccess = (answer, stats, ...rest) => {
        stats.loading.start = Math.max(stats.loading.start, stats.loading.first - ANSWER_MS);
        callbacks.onSuccess(answer, stats, ...rest);
      };
      super.load(context, config, { ...callbacks, onSuccess });
    }
  }
  // A larger size has to be begun by the server first: nobody should wait for it.
  class Climber extends Hls.DefaultConfig.abrController {
    get nextAutoLevel() {
      const [next, now, media] = [super.nextAutoLevel, this.hls.loadLevel, this.hls.media];
      const whole = !this.hls.levels[now]?.fragmentError; // Away from what fails, wherever that leads.
      return now >= 0 && next > now && whole && media && ahead(media) < ENOUGH ? now : next;
    }

    set nextAutoLevel(level) {
      super.nextAutoLevel = level;
    }
  }
  return { fLoader: Loader, abrController: Climber, abrEwmaDefaultEstimate: known ?? HOME, abrEwmaDefaultEstimateMax: HOME };
}

/**
 * Steps down where the server cannot make pictures as fast as they are shown, which hls.js does not know of; gives what
 * ends it.
 */
export function follow(hls, Hls) {
  let [again, patience, asked, since] = [null, AGAIN_MS, null, 0];
  hls.on(Hls.Events.FRAG_LOADING, (_, { frag }) => {
    if (frag.sn - asked?.sn !== 1 && frag.sn !== asked?.sn) since = frag.start;
    asked = frag;
  });
  hls.on(Hls.Events.ERROR, (_, { details, fatal }) => {
    if (fatal || details !== Hls.ErrorDetails.BUFFER_STALLED_ERROR) return;
    // Where the answer has begun to come, it is the line that is slow.
    const made = !asked || asked.stats.loading.first > 0;
    if (made || hls.media.currentTime - since < SETTLED || hls.loadLevel <= 0) return;
    hls.autoLevelCapping = hls.loadLevel - 1;
    clearTimeout(again);
    again = setTimeout(() => { hls.autoLevelCapping = -1; }, patience);
    patience *= 2;
  });
  return () => {
    clearTimeout(again);
    if (hls.bandwidthEstimate > 0) known = Math.min(HOME, hls.bandwidthEstimate);
  };
}
