// The guide's data, asked for piece by piece as it comes on screen: a piece is some channels for some hours.

import * as api from "./api.js";

const HOUR = 3_600_000;
export const SPAN = 12 * HOUR;
export const GROUP = 24;

/** Programmes shorter than this share a cell with those beside them that begin in the same quarter of an hour. */
const SHORT = 10 * 60_000;
const QUARTER = 15 * 60_000;

/** Pieces kept; the one not looked at for longest goes first. */
const KEPT = 48;

export class Programmes {
  /** `channels` by number; times count from `from`, ms. `arrived()` is called when a piece has come. */
  constructor(channels, from, arrived) {
    this.channels = channels;
    this.from = from;
    this.arrived = arrived;
    this.pieces = new Map();
    this.abort = new AbortController();
  }

  /**
   * What a channel shows between two instants, as far as it is known; the rest is asked for. Short programmes come
   * together, as one with `parts`: always the same ones, whichever window is asked for.
   */
  between(index, begin, end) {
    const [first, last] = [Math.floor(begin / QUARTER - 1) * QUARTER, Math.ceil(end / QUARTER) * QUARTER];
    return together(this.single(index, first, last)).filter(({ startMs, endMs }) => startMs < end && endMs > begin);
  }

  /** The same, each for itself. */
  single(index, begin, end) {
    const found = [];
    const group = Math.floor(index / GROUP);
    for (let span = Math.floor((begin - this.from) / SPAN); this.from + span * SPAN < end; span += 1) {
      for (const entry of this.piece(group, span)?.get(this.channels[index].id) ?? []) {
        if (entry.startMs < end && entry.endMs > begin && found.at(-1)?.id !== entry.id) found.push(entry);
      }
    }
    return found;
  }

  /** What a channel shows at an instant; undefined while that is not known. */
  at(index, instant) {
    return this.between(index, instant, instant + 1)[0];
  }

  /** Resolves when a channel's programmes around an instant are known. */
  async known(index, instant) {
    const [group, span] = [Math.floor(index / GROUP), Math.floor((instant - this.from) / SPAN)];
    this.piece(group, span);
    await this.pieces.get(`${group} ${span}`)?.coming;
  }

  /** Asks for what lies around, so that it is there when one goes on. */
  around(index, instant) {
    const [group, span] = [Math.floor(index / GROUP), Math.floor((instant - this.from) / SPAN)];
    for (const [g, s] of [[group + 1, span], [group - 1, span], [group, span + 1]]) {
      if (g >= 0 && g * GROUP < this.channels.length) this.piece(g, s);
    }
  }

  piece(group, span) {
    const key = `${group} ${span}`;
    const known = this.pieces.get(key);
    if (known) {
      this.pieces.delete(key);
      this.pieces.set(key, known);
      return known.byChannel;
    }
    const piece = { byChannel: null };
    this.pieces.set(key, piece);
    piece.coming = this.ask(piece, key, group, span);
    for (const old of this.pieces.keys()) {
      if (this.pieces.size <= KEPT) break;
      this.pieces.delete(old);
    }
    return null;
  }

  async ask(piece, key, group, span) {
    const begin = this.from + span * SPAN;
    const asked = this.channels.slice(group * GROUP, (group + 1) * GROUP);
    try {
      const { entries } = await api.epg({
        channelIds: asked.map(({ id }) => id).join(","),
        from: new Date(begin).toISOString(), to: new Date(begin + SPAN).toISOString(),
      }, this.abort.signal);
      piece.byChannel = new Map(asked.map(({ id }) => [id, []]));
      for (const entry of entries) {
        piece.byChannel.get(entry.channelId)?.push({ ...entry, startMs: Date.parse(entry.start), endMs: Date.parse(entry.end) });
      }
      this.arrived();
    } catch {
      this.pieces.delete(key); // Asked for again when it is looked at again.
    }
  }

  close() {
    this.abort.abort();
  }
}

function together(entries) {
  const cells = [];
  for (const entry of entries) {
    const short = entry.endMs - entry.startMs < SHORT;
    const quarter = Math.floor(entry.startMs / QUARTER);
    const before = cells.at(-1);
    if (!short) cells.push(entry);
    else if (before?.quarter === quarter) {
      before.parts.push(entry);
      before.endMs = entry.endMs;
    } else cells.push({ ...entry, quarter, parts: [entry] });
  }
  for (const cell of cells) if (cell.parts) cell.title = [...new Set(cell.parts.map(({ title }) => title))].join(", ");
  return cells;
}
