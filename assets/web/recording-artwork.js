// Artwork of recordings: that of their files in the library, and of programmes that are still to come that of their items.

import * as api from "./api.js";
import { loadArtwork } from "./programme-artwork.js";

/** Files in the library to look up at most. */
const LIMIT = 200;

/** Scheduled recordings whose programmes are looked up: the first ones, of the next days. */
const MAX_SCHEDULED = 24;
const SCHEDULED_MS = 48 * 3_600_000;

export class RecordingArtwork {
  /** `onLoaded()` is called when there is more artwork than before. */
  constructor(signal, onLoaded) {
    this.signal = signal;
    this.onLoaded = onLoaded;
    this.byPath = new Map();
    this.byEntry = new Map();
    this.requested = "";
  }

  /** The addresses of a recording's artwork by kind, or null. */
  of({ path, entryId }) {
    return this.byPath.get(path) ?? this.byEntry.get(entryId) ?? null;
  }

  /** Loads the artwork of these recordings unless they are the same as last time. */
  async request(recordings) {
    const paths = recordings.filter(({ state, path }) => path && state === "complete").map(({ path }) => path);
    const scheduled = recordings.filter(({ state, entryId, start }) => entryId && state !== "complete" && Date.parse(start) < Date.now() + SCHEDULED_MS).slice(-MAX_SCHEDULED);
    const key = JSON.stringify([paths, scheduled.map(({ entryId }) => entryId)]);
    if (key === this.requested) return;
    this.requested = key;
    await Promise.all([this.loadFiles(paths), this.loadProgrammes(scheduled)]).catch(() => {});
    if (!this.signal.aborted) this.onLoaded();
  }

  async loadFiles(paths) {
    if (paths.length === 0) return;
    const { items } = await api.getItems({ folder: commonFolder(paths), sort: "added", limit: LIMIT }, this.signal);
    for (const { mediaPath, artwork } of items) if (Object.keys(artwork).length > 0) this.byPath.set(mediaPath, artwork);
  }

  async loadProgrammes(scheduled) {
    if (scheduled.length === 0) return;
    const times = scheduled.flatMap(({ start, end }) => [start, end]).sort();
    const { entries } = await api.getEpg({ channelIds: [...new Set(scheduled.map(({ channelId }) => channelId))].join(","), from: times[0], to: times.at(-1) }, this.signal);
    const ids = new Set(scheduled.map(({ entryId }) => entryId));
    await Promise.all(entries.filter(({ id }) => ids.has(id)).map(async (entry) => {
      const artwork = await loadArtwork(entry);
      if (artwork) this.byEntry.set(entry.id, artwork);
    }));
  }
}

/** The folder that has all of these files. */
export function commonFolder(paths) {
  const parts = paths.map((path) => path.split("/").slice(0, -1));
  let length = 0;
  while (parts.every((folders) => length < folders.length && folders[length] === parts[0][length])) length += 1;
  return parts[0].slice(0, length).join("/");
}
