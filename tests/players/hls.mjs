// hls.js on a page of the server. `play` runs in the browser, so it must not use anything of this module.

/** Plays the playlist `live`; sets `window.watched` and `window.faults`. */
export async function play(live) {
  const { default: Hls } = await import("/web/vendor/hls.js");
  const video = document.createElement("video");
  document.body.append(video);
  window.faults = [];
  video.addEventListener("waiting", () => { if (video.currentTime > 0) window.faults.push(`stalls at ${video.currentTime.toFixed(1)} s`); });
  const player = new Hls();
  player.on(Hls.Events.ERROR, (_, { details, fatal }) => {
    // A request that hls.js aborts itself is not a fault.
    if (details !== Hls.ErrorDetails.INTERNAL_ABORTED) window.faults.push(`${fatal ? "fatal " : ""}${details}`);
  });
  player.loadSource(live);
  player.attachMedia(video);
  window.watched = () => video.currentTime - (video.played.length ? video.played.start(0) : video.currentTime);
  await video.play();
}
