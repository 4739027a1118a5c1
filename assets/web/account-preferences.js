// Preferences that follow the user to other devices: favourite channels, and languages, per series too. The server keeps them; the copy
// on this device (`preferences.js`) is what the page reads, also without a connection.

import * as api from "./api.js";
import { getPreferences, rememberLanguages, seriesOf, setPreferences } from "./preferences.js";

/** Channels that are kept at most; the oldest is dropped first. */
const MAX_FAVOURITES = 500;

/** Changes that wait for a connection at most; the oldest is dropped first. */
const MAX_UNSENT = 100;

/** How long the copy is used before the server is requested again, and how long a screen waits for the answer, ms. */
const FRESH_MS = 10_000;
const WAIT_MS = 2_000;

let loadedAt = -Infinity;
/** @type {Promise<void> | null} */
let sending = null;

/** Remembers languages for the series of a file, and for others. @param {Partial<import("./preferences.js").Languages>} changes */
export function setLanguages(path, changes) {
  rememberLanguages(seriesOf(path), changes);
  send({ languages: changes, series: { series: seriesOf(path), ...changes } });
}

/** Sets the languages of series without a choice of their own. @param {Partial<import("./preferences.js").Languages>} changes */
export function setDefaultLanguages(changes) {
  setPreferences({ languages: { ...getPreferences().languages, ...changes } });
  send({ languages: changes });
}

export const isFavourite = (channelId) => getPreferences().favourites.includes(channelId);

/** Whether one of these channels is a favourite. */
export const hasFavourites = (channels) => channels.some(({ id }) => isFavourite(id));

/** Adds a channel to the favourites, or removes it; returns whether it is one now. */
export function toggleFavourite(channelId) {
  const others = getPreferences().favourites.filter((id) => id !== channelId);
  const isAdded = !isFavourite(channelId);
  setPreferences({ favourites: isAdded ? [...others, channelId].slice(-MAX_FAVOURITES) : others });
  send({ [isAdded ? "addFavourites" : "removeFavourites"]: [channelId] });
  return isAdded;
}

/** Brings the copy up to date. Without an answer in time the copy stays as it is. */
export async function refreshAccountPreferences() {
  if (performance.now() - loadedAt < FRESH_MS) return;
  loadedAt = performance.now();
  const signal = AbortSignal.timeout(WAIT_MS);
  try {
    if (!getPreferences().isShared) shareDevicePreferences();
    await sendAll(signal);
    const { preferences: { languages, series, favourites } } = await api.getAccountPreferences(signal);
    if (getPreferences().unsent.length > 0) return; // Changed meanwhile.
    setPreferences({ languages, favourites, series: Object.fromEntries(series.map(({ series: key, ...chosen }) => [key, withoutNulls(chosen)])) });
  } catch {
    // The copy is used until the next try.
  }
}

/** A series has only what was chosen in it; the rest is chosen for all. */
const withoutNulls = (chosen) => Object.fromEntries(Object.entries(chosen).filter(([, value]) => value !== null));

/** Sends the choices that this device has from before the server kept them. */
function shareDevicePreferences() {
  const { languages, series, favourites, unsent } = getPreferences();
  const bySeries = Object.entries(series).map(([key, chosen]) => ({ series: { series: key, ...chosen } }));
  const all = favourites.length > 0 || bySeries.length > 0 || languages.audio || languages.subtitle ? [{ languages, addFavourites: favourites }, ...bySeries] : [];
  setPreferences({ isShared: true, unsent: [...all, ...unsent].slice(-MAX_UNSENT) });
}

/** Sends a change, now or once there is a connection. */
function send(change) {
  setPreferences({ unsent: [...getPreferences().unsent, change].slice(-MAX_UNSENT) });
  sendAll().catch(() => {}); // It is sent with the next one, or when a screen is shown.
}

/** Sends what the server does not have yet, in order. A change that the server refuses is dropped. @param {AbortSignal} [signal] */
function sendAll(signal) {
  sending ??= (async () => {
    for (let [next] = getPreferences().unsent; next && api.isSignedIn(); [next] = getPreferences().unsent) {
      await api.changeAccountPreferences(next, signal).catch((error) => {
        if (error.status !== 400) throw error;
      });
      setPreferences({ unsent: getPreferences().unsent.filter((change) => change !== next) });
    }
  })().finally(() => { sending = null; });
  return sending;
}

// Another user has other preferences.
window.addEventListener("user-changed", () => {
  loadedAt = -Infinity;
  if (!api.isSignedIn()) setPreferences({ favourites: [], series: {}, languages: { audio: null, subtitle: null }, unsent: [] });
});
