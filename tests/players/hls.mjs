// hls.js on a page of the server's own: runs in the browser, with nothing of what is around it here.

/** Plays the list `live`; leaves `window.watched` and `window.faults` behind. */
export async function play(live) {
  const { default: Hls } = await import("/web/vendor/hls.js");
  const video = document.createElement("video");
  document.body.append(video);
  window.faults = [];
  video.addEventListener("waiting", () => { if (video.currentTime > 0) window.faults.push(`waits at ${video.currentTime.toFixed(1)} s`); });
  const player = new Hls();
  player.on(Hls.Events.ERROR, (_, { details, fatal }) => {
    // What it gave up by itself, for a better one, is no fault.
    if (details !== Hls.ErrorDetails.INTERNAL_ABORTED) window.faults.push(`${fatal ? "fatal " : ""}${details}`);
  });
  player.loadSource(live);
  player.attachMedia(video);
  window.watched = () => video.currentTime - (video.played.length ? video.played.start(0) : video.currentTime);
  await video.play();
}
