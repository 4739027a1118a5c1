// Now playing: the sessions of all users, which an admin can stop, and the channels being watched.

import * as api from "./api.js";
import { h } from "./dom.js";
import { nameOf, stem, watchLink } from "./links.js";
import { confirmButton, liveTable, poll } from "./widgets.js";
import { formatTime } from "./format.js";
import { TEXT, stateLabel } from "./strings.js";

const POLL_MS = 2000;

export async function playingTab(container, { signal, showError }) {
  const loadLine = h("p", { class: "muted", role: "status" });
  const runAndRefresh = (work) => {
    showError(null);
    return work().then(() => refresh().catch(() => {}), showError); // The poll shows a refresh that keeps failing.
  };
  const sessions = liveTable([TEXT.user, TEXT.title, TEXT.status, TEXT.since, ""], TEXT.noSessions, ({ sessionId }) => sessionId,
    ({ sessionId, username, mediaPath, state, diagnostics }, isUpdate) => [
      username ?? "?", stem(nameOf(mediaPath)), describeSession(state, diagnostics), formatTime(diagnostics.startedAt),
      isUpdate ? null : confirmButton(runAndRefresh, () => api.stopSession(sessionId), TEXT.stop, TEXT.confirmStop)]);
  const channels = liveTable([TEXT.channel, TEXT.onNow, TEXT.status, TEXT.viewers], TEXT.noWatchedChannels, ({ id }) => id,
    ({ id, number, name, now, state, viewers }, isUpdate) => [
      isUpdate ? null : h("a", { href: watchLink(id) }, `${number} ${name}`), now?.title ?? "", stateLabel(state), String(viewers)]);
  container.replaceChildren(h("h2", {}, TEXT.sessions), loadLine, sessions.element, h("h2", {}, TEXT.channels), channels.element);
  const refresh = async () => {
    const [{ sessions: allSessions }, { channels: allChannels }, { local }] =
      await Promise.all([api.getSessions(signal), api.getChannels({ enabled: "all" }, signal), api.getWorkers(signal)]);
    if (signal.aborted) return;
    loadLine.textContent = TEXT.conversions(local.activeJobCount, local.maxConcurrentJobs);
    sessions.show(allSessions);
    channels.show(allChannels.filter(({ state }) => state !== "idle"));
  };
  await refresh();
  poll(POLL_MS, signal, showError, refresh);
}

/** A session's state, resolution, encoder and speed in a few words. */
function describeSession(state, { video, audio, encoder, pipeline, speed }) {
  const resolution = video?.height ? `${video.width}×${video.height}` : null;
  const encoding = video?.action === "encode" || audio?.action === "encode" ? encoder : TEXT.copied;
  return [stateLabel(state), resolution, encoding, pipeline, speed && state === "running" && TEXT.rate(Math.round(10 * speed) / 10)].filter(Boolean).join(" · ");
}
