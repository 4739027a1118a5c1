// The kinds of the library: how each is loaded, grouped, sorted, filtered and drawn.

import * as api from "./api.js";
import { albumLink, artistLink, bookLink, folderOf, nameOf, seriesLink } from "./links.js";
import { TEXT } from "./strings.js";
import { itemTile, seriesTile, tile } from "./tiles.js";

/** Sizes of walls by the shape of their tiles, rem. @type {Record<string, import("./windowed-list.js").Layout>} */
export const LAYOUTS = {
  poster: { column: 9.75, narrowColumn: 6.2, gap: 1, row: 3.5, ratio: 2 / 3 },
  still: { column: 15, narrowColumn: 9.75, gap: 1, row: 3.5, ratio: 16 / 9 },
  square: { column: 9.75, narrowColumn: 6.2, gap: 1, row: 3.5, ratio: 1 },
};

const loadItems = (kind) => async (query, signal) => {
  const { items, total, nextCursor, scanning } = await api.getItems({ kind, ...query }, signal);
  return { entries: items, total, nextCursor, scanning };
};

/** Series have no order and filters on the server. */
async function loadSeries({ limit, cursor }, signal) {
  const { series, total, nextCursor, scanning } = await api.getAllSeries({ limit, ...(cursor && { cursor }) }, signal);
  return { entries: series, total, nextCursor, scanning };
}

const WATCHED_SERIES = {
  unwatched: ({ watchedCount }) => watchedCount === 0,
  inProgress: ({ watchedCount, episodeCount }) => watchedCount > 0 && watchedCount < episodeCount,
  watched: ({ watchedCount, episodeCount }) => watchedCount === episodeCount,
};

function arrangeSeries(series, { sort, watched }) {
  const filtered = watched ? series.filter(WATCHED_SERIES[watched]) : series;
  return sort === "added" ? filtered.toSorted((a, b) => b.addedAt.localeCompare(a.addedAt)) : filtered;
}

const DISC_FOLDER = /^(?:cd|disc|disk|dvd)[ ._-]*(\d+)$/i;

/** The disc of a track: of its tags, otherwise of its folder; 1 without either. @param {{ disc?: number | null, mediaPath: string }} track */
export const discOf = ({ disc, mediaPath }) => disc ?? Number(DISC_FOLDER.exec(nameOf(folderOf(mediaPath)))?.[1] ?? 1);

/** Albums or books, by artist unless another order is requested; `sortTitle` is the text that the letters lead to. */
const loadByArtist = (request, list) => async (query, signal) => {
  const { [list]: entries, total, nextCursor, scanning } = await request(query, signal);
  const sortTitle = ({ title, artist }) => (query.sort === "title" ? title : artist ?? title);
  return { entries: entries.map((entry) => ({ ...entry, sortTitle: sortTitle(entry) })), total, nextCursor, scanning };
};

async function loadArtists(query, signal) {
  const { artists, total, nextCursor, scanning } = await api.getArtists(query, signal);
  return { entries: artists.map((artist) => ({ ...artist, id: artist.name, title: artist.name })), total, nextCursor, scanning };
}

/** Films, and each series once. */
const arrangeParts = (items) => [...new Map(items.map((item) => [item.seriesId ?? item.id, item])).values()];

const partTile = (item) => (item.seriesId ? tile({ href: seriesLink(item.seriesId), kind: "series", title: item.seriesTitle, line: TEXT.oneSeries }) : itemTile(item));

const albumTile = ({ folder, title, artist, artwork }) =>
  tile({ href: albumLink(folder, title), kind: "album", title, line: artist ?? TEXT.variousArtists, artwork });
const artistTile = ({ name, albumCount, artwork }) => tile({ href: artistLink(name), kind: "album", title: name, line: TEXT.counts.music(albumCount), artwork });
const bookTile = ({ audiobookPath, title, artist, artwork, progress, watched }) => tile({ href: bookLink(audiobookPath), kind: "audiobook", title, line: artist,
  artwork, percent: progress && !watched ? progress.progressPercentage : 0, isWatched: watched });

/**
 * @typedef {object} Kind
 * @property {"poster" | "still" | "square"} shape
 * @property {string} itemKinds  as in a request
 * @property {(query: object, signal?: AbortSignal) => Promise<import("./catalogue-list.js").Page>} load
 * @property {(entry: object) => HTMLElement} tile
 * @property {(items: object[], options: object) => object[]} [arrange]  groups, sorts and filters what was loaded
 * @property {string[]} [sorts]  the first is the server's own
 * @property {boolean} [hasGenres]
 * @property {boolean} [hasWatched]
 * @property {boolean} [isFilteredHere]  not by the server
 */

/** @type {Record<string, Kind>} */
export const KINDS = {
  film: { shape: "poster", itemKinds: "film", load: loadItems("film"), tile: (item) => itemTile(item), sorts: ["title", "added", "year"], hasGenres: true, hasWatched: true },
  series: { shape: "poster", itemKinds: "episode", load: loadSeries, tile: seriesTile, arrange: arrangeSeries, isFilteredHere: true, sorts: ["title", "added"], hasWatched: true },
  music: { shape: "square", itemKinds: "music", load: loadByArtist(api.getAlbums, "albums"), tile: albumTile, sorts: ["artist", "title", "added", "year"], hasGenres: true },
  artist: { shape: "square", itemKinds: "music", load: loadArtists, tile: artistTile, sorts: ["name", "added"] },
  audiobook: { shape: "square", itemKinds: "audiobook", load: loadByArtist(api.getBooks, "books"), tile: bookTile, sorts: ["author", "title", "added", "year"] },
  homeVideo: { shape: "still", itemKinds: "homeVideo", load: loadItems("homeVideo"), tile: (item) => itemTile(item), sorts: ["title", "added"], hasWatched: true },
  person: { shape: "poster", itemKinds: "film,episode", load: loadItems("film,episode"), tile: partTile, arrange: arrangeParts },
};

/** Articles that do not count in the order, as on the server. */
const ARTICLE = /^(the|a|an|der|die|das|ein|eine|le|la|les|un|une|el|los|las|il|lo) (?=\S)/i;

/** The letter under which an entry is sorted; "#" for digits and signs, which come first. */
export function letterOf({ sortTitle, title }) {
  const letter = (sortTitle ?? title).replace(ARTICLE, "").normalize("NFD").match(/[\p{L}\p{N}]/u)?.[0].toUpperCase() ?? "#";
  return /\p{L}/u.test(letter) ? letter : "#";
}
