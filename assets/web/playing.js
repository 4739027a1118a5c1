// Who plays what: sessions of everybody, each of which can be stopped, and the channels that are watched.

import * as api from "./api.js";
import { h } from "./dom.js";
import { nameOf, stem, watchLink } from "./links.js";
import { every, liveTable, remover } from "./sheet.js";
import { TEXT, stateOf, time } from "./strings.js";

const EVERY_MS = 2000;

export async function playingTab(place, { signal, wrong }) {
  const load = h("p", { class: "quiet", role: "status" });
  const stop = (work) => work().then(show).catch(wrong);
  const sessions = liveTable([TEXT.who, TEXT.what, TEXT.how, TEXT.since, ""], TEXT.nobodyPlays, ({ sessionId }) => sessionId,
    ({ sessionId, username, mediaPath, state, diagnostics }, known) => [
      username ?? "?", stem(nameOf(mediaPath)), work(state, diagnostics), time(diagnostics.startedAt),
      known ? null : remover(stop, () => api.stopSession(sessionId), TEXT.stop, TEXT.sureStop)]);
  const channels = liveTable([TEXT.channel, TEXT.onNow, TEXT.how, TEXT.watchedBy], TEXT.noneOnAir, ({ id }) => id,
    ({ id, number, name, now, state, viewers }, known) => [
      known ? null : h("a", { href: watchLink(id) }, `${number} ${name}`), now?.title ?? "", stateOf(state), String(viewers)]);
  place.replaceChildren(h("h2", {}, TEXT.sessions), load, sessions.element, h("h2", {}, TEXT.channels), channels.element);
  const show = async () => {
    const [{ sessions: all }, { channels: aired }, { local }] =
      await Promise.all([api.sessions(signal), api.channels({ enabled: "all" }, signal), api.workers(signal)]);
    if (signal.aborted) return;
    load.textContent = TEXT.converting(local.activeJobCount, local.maxConcurrentJobs);
    sessions.show(all);
    channels.show(aired.filter(({ state }) => state !== "idle"));
  };
  await show();
  every(EVERY_MS, signal, wrong, show);
}

/** What is done for a session, in few words. */
function work(state, { video, audio, encoder, pipeline, speed }) {
  const size = video?.height ? `${video.width}×${video.height}` : null;
  const made = video?.action === "encode" || audio?.action === "encode" ? encoder : TEXT.copied;
  return [stateOf(state), size, made, pipeline, speed && state === "running" && `${speed.toFixed(1)}×`].filter(Boolean).join(" · ");
}
