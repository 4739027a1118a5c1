// The Media Session: title and artwork on the lock screen, and the keys of headsets and keyboards.

import { resolvePath } from "./api.js";

/** @type {MediaSessionAction[]} */
const ACTIONS = ["play", "pause", "seekbackward", "seekforward", "seekto", "previoustrack", "nexttrack", "stop"];

let owner = null; // Who set the session last: only that one may clear it.

/**
 * Shows what plays. `handlers` has a function by action; those without one are switched off.
 * @param {object} by the player
 * @param {{ title: string, artist?: string, album?: string, artwork?: string }} metadata
 * @param {Partial<Record<MediaSessionAction, (details: MediaSessionActionDetails) => void>>} handlers
 */
export function setMediaSession(by, { title, artist = "", album = "", artwork }, handlers) {
  const session = navigator.mediaSession;
  if (!session) return;
  owner = by;
  const images = [{ src: new URL(artwork ?? resolvePath("/web/logo.svg"), location.href).href, sizes: artwork ? "512x512" : "any" }];
  session.metadata = new MediaMetadata({ title, artist, album, artwork: images });
  for (const action of ACTIONS) {
    try {
      session.setActionHandler(action, handlers[action] ?? null);
    } catch {
      // Browsers reject actions that they do not know.
    }
  }
}

/** Shows whether it plays, and where; a duration that is not finite shows no position. */
export function updateMediaSession(by, { isPaused, position, duration, rate }) {
  const session = navigator.mediaSession;
  if (!session || owner !== by) return;
  session.playbackState = isPaused ? "paused" : "playing";
  if (Number.isFinite(duration) && duration > 0) session.setPositionState?.({ duration, playbackRate: rate || 1, position: Math.min(Math.max(0, position), duration) });
  else session.setPositionState?.();
}

export function clearMediaSession(by) {
  const session = navigator.mediaSession;
  if (!session || owner !== by) return;
  owner = null;
  session.metadata = null;
  session.playbackState = "none";
  for (const action of ACTIONS) {
    try {
      session.setActionHandler(action, null);
    } catch {
      // As above.
    }
  }
}
