// Where a viewer of a live channel is on the wall clock, and how far back the channel can be rewound. Seconds since 1970.

/** The player is at most this far behind the newest segment by itself, seconds. */
const MAX_USUAL_LATENCY = 14;

/** A viewer who has paused or rewound is behind from this much more than the usual latency on, seconds. */
const TOLERANCE = 5;

/** A viewer who has not is behind from this latency on: the device or the network is slow, seconds. */
const MAX_LATENCY = 25;

/** Rewinding stops this long after the oldest segment, which is removed soon, and seeking before the newest. */
const MARGIN = 3;

export class LiveClock {
  /** @param {HTMLMediaElement} media */
  constructor(media) {
    this.media = media;
    media.addEventListener("pause", () => { this.isBehindByChoice = true; });
    this.reset();
  }

  /** Call it when another channel is tuned to. */
  reset() {
    this.usualLatency = MAX_USUAL_LATENCY; // The least since then.
    this.isBehindByChoice = false;
  }

  /** How long ago what is shown was on air, seconds. */
  latency() {
    const { seekable, currentTime } = this.media;
    return seekable.length > 0 ? Math.max(0, seekable.end(seekable.length - 1) - currentTime) : 0;
  }

  /** How far behind live the viewer is; 0 while it is only the usual latency. */
  behind() {
    const latency = this.latency();
    if (latency > 0) this.usualLatency = Math.min(this.usualLatency, latency);
    return latency > (this.isBehindByChoice ? this.usualLatency + TOLERANCE : MAX_LATENCY) ? latency : 0;
  }

  /** The time on the clock of what is shown. */
  position() {
    return Date.now() / 1000 - this.latency();
  }

  /** The seek bar: the programme, and the part of it that can be reached. @returns {import("./timeline.js").Times} */
  times(programme) {
    const { seekable } = this.media;
    const now = Date.now() / 1000;
    const kept = seekable.length > 0 ? seekable.end(seekable.length - 1) - seekable.start(0) : 0;
    const [start, end] = programme ? [Date.parse(programme.start) / 1000, Date.parse(programme.end) / 1000] : [now - Math.max(kept, 60), now];
    return { position: this.position(), start, end, seekableFrom: Math.max(start, now - kept), seekableTo: Math.min(end, now) };
  }

  /** Goes to a time on the clock, as far as it is kept. */
  seek(at) {
    this.isBehindByChoice = true;
    this.goTo(at);
  }

  goToLive() {
    this.reset();
    this.goTo(Date.now() / 1000);
  }

  goTo(at) {
    const { seekable } = this.media;
    if (seekable.length === 0) return;
    const [oldest, newest] = [seekable.start(0), seekable.end(seekable.length - 1)];
    const target = newest - (Date.now() / 1000 - at);
    this.media.currentTime = Math.max(oldest + MARGIN, Math.min(target, newest - 2 * MARGIN));
    this.media.play().catch(() => {}); // The browser may require a click first.
  }
}
