// Home: what to resume, what comes next, what is new, what is on.

import * as api from "./api.js";
import { backdrop } from "./artwork.js";
import { h, icon } from "./dom.js";
import { listenToEvents } from "./events.js";
import { formatLength, formatTime } from "./format.js";
import { bookLink, folderOf, isAudiobook, itemLink, libraryLink, openLink, playLink, watchLink } from "./links.js";
import { TEXT } from "./strings.js";
import { episodeLabel, headlineOf, itemTile, playTile, row, seriesTile, tile } from "./tiles.js";

const ROW_LIMIT = 20;

/** Items that are in progress or watched, to find titles and artwork of what was played. */
const KNOWN_LIMIT = 200;

/** Folders in which the artwork of programmes is looked up. */
const MAX_FOLDERS = 8;

/** Channels are shown with what is on; it is loaded again after this time, ms. */
const REFRESH_MS = 60_000;

/** Events are shown this long after the last one, ms. */
const REDRAW_DELAY_MS = 300;

/** Shows the rows that are not empty; playback on other devices updates them. `place` has how far rows were scrolled. */
export async function showHome(stage, params, place) {
  document.title = "Hearthcast";
  const abort = new AbortController();
  const getScroll = () => new Map([...stage.querySelectorAll(".row")].map((one) => [one.dataset.row, one.querySelector(".cards").scrollLeft]));
  const render = async (scrollPositions) => {
    const data = await load();
    if (abort.signal.aborted) return;
    const rows = createRows(data);
    scrollPositions ??= getScroll();
    const focusedKey = stage.contains(document.activeElement) ? keyOf(document.activeElement) : null;
    stage.replaceChildren(h("h1", { class: "visually-hidden" }, TEXT.home), createHero(data) ?? "", ...(rows.length ? rows : [emptyCard()]));
    for (const [name, scrollLeft] of scrollPositions) {
      const cards = stage.querySelector(`[data-row="${name}"] .cards`);
      if (cards) cards.scrollLeft = scrollLeft;
    }
    if (focusedKey) [...stage.querySelectorAll("a")].find((link) => keyOf(link) === focusedKey)?.focus({ preventScroll: true });
  };
  await render(place?.scroll);
  const redraw = () => render().catch(() => {});
  const refreshTimer = setInterval(redraw, REFRESH_MS);
  let redrawTimer = null;
  listenToEvents(() => {
    clearTimeout(redrawTimer);
    redrawTimer = setTimeout(redraw, REDRAW_DELAY_MS);
  }, abort.signal);
  return {
    getPlace: () => ({ scroll: getScroll() }),
    leave() {
      clearInterval(refreshTimer);
      clearTimeout(redrawTimer);
      abort.abort();
    },
  };
}

/** What identifies a link: its row and its address. */
const keyOf = (link) => `${link.closest("section")?.dataset.row} ${link.getAttribute("href")}`;

async function load() {
  const none = (name) => () => ({ [name]: [] });
  const [inProgress, next, channels, books, completed, begun, watched, films, series, homeVideos] = await Promise.all([
    api.getHistory({ limit: ROW_LIMIT, status: "in_progress" }),
    api.getNextUp(ROW_LIMIT),
    api.getChannels({}).catch(none("channels")),
    api.getAudiobookHistory({ limit: ROW_LIMIT }),
    api.getHistory({ limit: ROW_LIMIT, status: "completed" }),
    api.getItems({ watched: "inProgress", limit: KNOWN_LIMIT }).catch(none("items")),
    api.getItems({ watched: "watched", limit: KNOWN_LIMIT }).catch(none("items")),
    api.getItems({ kind: "film", sort: "added", limit: ROW_LIMIT }).catch(none("items")),
    api.getAllSeries({ limit: KNOWN_LIMIT }).catch(none("series")),
    api.getItems({ kind: "homeVideo", sort: "added", limit: ROW_LIMIT }).catch(none("items")),
  ]);
  const known = new Map([...begun.items, ...watched.items, ...films.items].map((item) => [item.id, item]));
  const begunPaths = new Set(inProgress.history.map(({ mediaPath }) => mediaPath));
  const nextUp = next.nextUp.filter(({ mediaPath }) => !begunPaths.has(mediaPath));
  const onAir = channels.channels.slice(0, ROW_LIMIT);
  // A book of several files is a folder.
  const bookPaths = books.history.map(({ audiobookPath }) => audiobookPath).filter((path) => !isAudiobook(path)).map((path) => `${path}/`);
  const paths = [...nextUp.map(({ mediaPath }) => mediaPath), ...onAir.map(({ now }) => now?.mediaPath), ...bookPaths];
  return {
    inProgress: inProgress.history, nextUp, channels: onAir, books: books.history, completed: completed.history, known,
    films: films.items, series: series.series.toSorted((a, b) => b.addedAt.localeCompare(a.addedAt)).slice(0, ROW_LIMIT), homeVideos: homeVideos.items,
    byPath: await findByPath(paths),
  };
}

/** The items of some files, by path: their folders are listed. */
async function findByPath(paths) {
  const folders = [...new Set(paths.filter(Boolean).map(folderOf))].slice(0, MAX_FOLDERS);
  const lists = await Promise.all(folders.map((folder) => api.getItems({ folder, limit: KNOWN_LIMIT }).catch(() => ({ items: [] }))));
  return new Map(lists.flatMap(({ items }) => items.map((item) => [item.mediaPath, item])));
}

const createRows = ({ inProgress, nextUp, films, series, channels, books, homeVideos, completed, known, byPath }) => [
  row("continue-watching", TEXT.continueWatching, inProgress.map((record) => historyTile(record, known))),
  row("next-up", TEXT.nextUp, nextUp.map((next) => nextUpTile(next, byPath))),
  row("on-now", TEXT.onNow, channels.map((channel) => channelTile(channel, byPath)), "#/guide"),
  row("recent-films", TEXT.recentFilms, films.map((item) => itemTile(item)), libraryLink("film", { sort: "added" })),
  row("recent-series", TEXT.recentSeries, series.map(seriesTile), libraryLink("series", { sort: "added" })),
  row("books", TEXT.kindNames.audiobook, books.map((record) => bookTile(record, known, byPath)), libraryLink("audiobook")),
  row("home-videos", TEXT.recentHomeVideos, homeVideos.map((item) => itemTile(item)), libraryLink("homeVideo")),
  row("watch-again", TEXT.watchAgain, completed.map((record) => historyTile(record, known))),
].filter(Boolean);

/** What was begun last, otherwise what comes next or is new, over its backdrop. */
function createHero({ inProgress, nextUp, films, known, byPath }) {
  const record = inProgress.find(({ mediaType, available }) => mediaType === "video" && available !== false);
  const item = record ? known.get(record.mediaId) : nextUp.map(({ mediaPath }) => byPath.get(mediaPath)).find(Boolean) ?? films[0];
  if (!item) return null;
  const remaining = record && record.durationSeconds - record.positionSeconds;
  const episode = item.kind === "episode" ? [episodeLabel(item), item.title].filter(Boolean).join(" · ") : null;
  const line = [episode, remaining > 0 ? TEXT.left(formatLength(remaining)) : null, !record && item.kind === "film" ? item.year : null, ...(record ? [] : item.genres.slice(0, 2))];
  return h("section", { class: "hero", "aria-label": record ? TEXT.continueWatching : TEXT.play },
    backdrop({ kind: item.kind, title: headlineOf(item), artwork: item.artwork }),
    h("div", { class: "hero-text" },
      h("p", { class: "eyebrow" }, record ? TEXT.continueWatching : item.kind === "episode" ? TEXT.nextUp : TEXT.newInLibrary),
      h("h2", {}, headlineOf(item)),
      h("p", { class: "hero-line" }, line.filter(Boolean).join(" · ")),
      h("div", { class: "actions" },
        h("a", { class: "button primary", href: playLink(item.mediaPath), "data-first": true }, icon("play"), record ? TEXT.resumeShort : TEXT.play),
        h("a", { class: "button", href: itemLink(item.id) }, icon("info"), TEXT.details))));
}

const emptyCard = () => h("div", { class: "card" },
  h("img", { src: api.resolvePath("/web/logo.svg"), alt: "", width: 56, height: 56 }), h("p", {}, TEXT.emptyHome),
  h("a", { class: "button primary", href: libraryLink(), "data-first": true }, TEXT.openLibrary));

/** What was played: with title and artwork if the catalogue has it. */
function historyTile(record, known) {
  const item = known.get(record.mediaId);
  const isUnavailable = record.available === false;
  const remaining = record.durationSeconds - record.positionSeconds;
  const line = isUnavailable ? TEXT.unavailable : !record.completed && remaining > 0 ? TEXT.left(formatLength(remaining)) : null;
  if (item && !isUnavailable && !isAudiobook(record.mediaPath)) {
    return playTile({ ...item, mediaPath: record.mediaPath, progress: record }, line);
  }
  return tile({
    href: openLink(record.mediaPath), kind: record.mediaType === "audio" ? "music" : "film", shape: "still", title: record.title, line,
    percent: record.completed ? 0 : record.progressPercentage, isUnavailable, artwork: item?.artwork,
  });
}

function nextUpTile({ mediaPath, title }, byPath) {
  const item = byPath.get(mediaPath);
  return item ? playTile(item, item.title) : tile({ href: openLink(mediaPath), kind: "episode", title, line: TEXT.nextEpisode });
}

const bookTile = (record, known, byPath) => tile({
  href: bookLink(record.audiobookPath), kind: "audiobook", title: record.title, isUnavailable: record.available === false,
  artwork: (known.get(record.mediaId) ?? [...byPath.values()].find(({ mediaPath }) => mediaPath.startsWith(`${record.audiobookPath}/`)))?.artwork,
  line: record.available === false ? TEXT.unavailable : record.completed ? TEXT.finished : TEXT.left(formatLength(record.durationSeconds - record.positionSeconds)),
  percent: record.completed ? 0 : record.progressPercentage, isWatched: record.completed,
});

function channelTile({ id, name, number, logoUrl, now }, byPath) {
  const elapsed = now && (Date.now() - Date.parse(now.start)) / (Date.parse(now.end) - Date.parse(now.start));
  return tile({
    href: watchLink(id), kind: "channel", title: now?.title ?? name, percent: now ? elapsed * 100 : 0,
    line: `${number} ${name}${now ? ` · ${TEXT.until(formatTime(now.end))}` : ""}`,
    artwork: byPath.get(now?.mediaPath)?.artwork,
    logo: logoUrl?.startsWith("/") ? api.resolvePath(logoUrl) : null,
  });
}
