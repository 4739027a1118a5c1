// On a page of the server: hls.js, or the browser's own HLS. These functions run in the browser, so they must not use anything
// of this module.

/** The capabilities that the page would send. */
export async function probe() {
  const { probeCapabilities } = await import("/web/capabilities.js");
  return probeCapabilities();
}

/** Plays the playlist `live`; sets `window.watched` and `window.faults`. */
export async function play(live) {
  const { default: Hls } = await import("/web/vendor/hls.js");
  const video = document.createElement("video");
  document.body.append(video);
  window.faults = [];
  video.addEventListener("waiting", () => { if (video.currentTime > 0) window.faults.push(`stalls at ${video.currentTime.toFixed(1)} s`); });
  const player = new Hls();
  player.on(Hls.Events.ERROR, (_, { details, fatal }) => {
    // A request that hls.js aborts itself is not a fault; nor is the start of playback with the first frame, a few hundredths after 0.
    const isStart = details === Hls.ErrorDetails.BUFFER_SEEK_OVER_HOLE && video.currentTime < 0.25;
    if (details !== Hls.ErrorDetails.INTERNAL_ABORTED && !isStart) window.faults.push(`${fatal ? "fatal " : ""}${details}`);
  });
  player.loadSource(live);
  player.attachMedia(video);
  window.watched = () => video.currentTime - (video.played.length ? video.played.start(0) : video.currentTime);
  await video.play();
}

/** Plays the playlist by the browser itself. */
export async function playNative(live) {
  const video = document.createElement("video");
  document.body.append(video);
  window.faults = [];
  video.addEventListener("waiting", () => { if (video.currentTime > 0) window.faults.push(`stalls at ${video.currentTime.toFixed(1)} s`); });
  video.addEventListener("error", () => window.faults.push(`fatal ${video.error.message}`));
  window.watched = () => video.currentTime - (video.played.length ? video.played.start(0) : video.currentTime);
  video.src = live;
  await video.play();
}
