// The data of the guide, loaded in chunks as they come into view: a chunk is a group of channels for some hours.

import * as api from "./api.js";

const HOUR = 3_600_000;
const CHUNK_MS = 12 * HOUR;
const CHUNK_CHANNELS = 24;

/** Programmes shorter than this share a cell with others that start in the same quarter of an hour. */
const SHORT_MS = 10 * 60_000;
const QUARTER_HOUR = 15 * 60_000;

/** Chunks to keep; the least recently used is dropped first. */
const MAX_CHUNKS = 48;

export class Programmes {
  /** `channels` by number; times count from `from`, ms. `onLoaded()` is called after each chunk. */
  constructor(channels, from, onLoaded) {
    this.channels = channels;
    this.from = from;
    this.onLoaded = onLoaded;
    this.chunks = new Map();
    this.abort = new AbortController();
  }

  /**
   * A channel's loaded programmes between two instants; missing ones are requested. Short programmes are grouped into one
   * with `parts`, always the same ones for any range.
   */
  groupedBetween(index, begin, end) {
    const [first, last] = [Math.floor(begin / QUARTER_HOUR - 1) * QUARTER_HOUR, Math.ceil(end / QUARTER_HOUR) * QUARTER_HOUR];
    return groupShort(this.entriesBetween(index, first, last)).filter(({ startMs, endMs }) => startMs < end && endMs > begin);
  }

  /** A channel's loaded programmes between two instants, not grouped. */
  entriesBetween(index, begin, end) {
    const found = [];
    const group = Math.floor(index / CHUNK_CHANNELS);
    for (let span = Math.floor((begin - this.from) / CHUNK_MS); this.from + span * CHUNK_MS < end; span += 1) {
      for (const entry of this.getChunk(group, span)?.get(this.channels[index].id) ?? []) {
        if (entry.startMs < end && entry.endMs > begin && found.at(-1)?.id !== entry.id) found.push(entry);
      }
    }
    return found;
  }

  /** The programme at an instant; undefined while it is not loaded. */
  entryAt(index, instant) {
    return this.groupedBetween(index, instant, instant + 1)[0];
  }

  /** Resolves when the programmes around an instant are loaded. */
  async whenLoaded(index, instant) {
    const [group, span] = [Math.floor(index / CHUNK_CHANNELS), Math.floor((instant - this.from) / CHUNK_MS)];
    this.getChunk(group, span);
    await this.chunks.get(`${group} ${span}`)?.loading;
  }

  /** Prefetches the chunks around an instant. */
  prefetchAround(index, instant) {
    const [group, span] = [Math.floor(index / CHUNK_CHANNELS), Math.floor((instant - this.from) / CHUNK_MS)];
    for (const [g, s] of [[group + 1, span], [group - 1, span], [group, span + 1]]) {
      if (g >= 0 && g * CHUNK_CHANNELS < this.channels.length) this.getChunk(g, s);
    }
  }

  getChunk(group, span) {
    const key = `${group} ${span}`;
    const cached = this.chunks.get(key);
    if (cached) {
      this.chunks.delete(key);
      this.chunks.set(key, cached);
      return cached.byChannel;
    }
    const chunk = { byChannel: null };
    this.chunks.set(key, chunk);
    chunk.loading = this.loadChunk(chunk, key, group, span);
    for (const oldest of this.chunks.keys()) {
      if (this.chunks.size <= MAX_CHUNKS) break;
      this.chunks.delete(oldest);
    }
    return null;
  }

  async loadChunk(chunk, key, group, span) {
    const begin = this.from + span * CHUNK_MS;
    const channels = this.channels.slice(group * CHUNK_CHANNELS, (group + 1) * CHUNK_CHANNELS);
    try {
      const { entries } = await api.getEpg({
        channelIds: channels.map(({ id }) => id).join(","),
        from: new Date(begin).toISOString(), to: new Date(begin + CHUNK_MS).toISOString(),
      }, this.abort.signal);
      chunk.byChannel = new Map(channels.map(({ id }) => [id, []]));
      for (const entry of entries) {
        chunk.byChannel.get(entry.channelId)?.push({ ...entry, startMs: Date.parse(entry.start), endMs: Date.parse(entry.end) });
      }
      this.onLoaded();
    } catch {
      this.chunks.delete(key); // It is requested again with the next look.
    }
  }

  close() {
    this.abort.abort();
  }
}

function groupShort(entries) {
  const cells = [];
  for (const entry of entries) {
    const isShort = entry.endMs - entry.startMs < SHORT_MS;
    const quarter = Math.floor(entry.startMs / QUARTER_HOUR);
    const previous = cells.at(-1);
    if (!isShort) cells.push(entry);
    else if (previous?.quarter === quarter) {
      previous.parts.push(entry);
      previous.endMs = entry.endMs;
    } else cells.push({ ...entry, quarter, parts: [entry] });
  }
  for (const cell of cells) if (cell.parts) cell.title = [...new Set(cell.parts.map(({ title }) => title))].join(", ");
  return cells;
}
