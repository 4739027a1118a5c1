// Tiles of the library: artwork with progress and marks, and two lines below; and rows of them.

import { artBox } from "./artwork.js";
import { h, icon, iconButton } from "./dom.js";
import { formatDate, formatLength } from "./format.js";
import { albumLink, bookLink, folderOf, itemLink, playLink, seriesLink } from "./links.js";
import { TEXT } from "./strings.js";

/** The width of a tile by its shape, rem; `library.css` has the same. */
const WIDTHS_REM = { poster: 10.5, still: 17, square: 10.5 };

/** The shape of a kind's artwork. @type {Record<string, "poster" | "still" | "square">} */
export const SHAPES = { film: "poster", series: "poster", episode: "still", homeVideo: "still", extra: "still", music: "square", album: "square", audiobook: "square" };

/**
 * @param {object} options
 * @param {string} options.href
 * @param {string} options.kind
 * @param {string} options.title
 * @param {string | null} [options.line]
 * @param {"poster" | "still" | "square"} [options.shape]  by default that of its kind
 * @param {number} [options.percent]  progress, 0 to 100
 * @param {Record<string, string>} [options.artwork]
 * @param {number} [options.count]  unwatched episodes
 * @param {boolean} [options.isWatched]
 * @param {boolean} [options.isUnavailable]
 * @param {string | null} [options.logo]
 * @param {boolean} [options.playLabel]
 */
export function tile({ href, kind, shape = SHAPES[kind] ?? "still", title, line, percent = 0, artwork, isWatched, count, isUnavailable, logo, playLabel }) {
  return h("a", { class: `tile ${shape}${isUnavailable ? " unavailable" : ""}`, href },
    artBox({ shape, kind, title, artwork, widthRem: WIDTHS_REM[shape] },
      logo && h("img", { class: "logo", src: logo, alt: "", loading: "lazy" }),
      playLabel && h("span", { class: "play-mark" }, icon("play")),
      isWatched && watchedMark(),
      count > 0 && h("span", { class: "badge", "aria-hidden": "true" }, String(count)),
      percent > 0 && progressBar(percent)),
    h("span", { class: "title" }, title),
    h("span", { class: "muted" }, line || "\u00a0"));
}

export const progressBar = (percent) => h("div", { class: "progress" }, h("div", { style: { width: `${Math.min(100, percent)}%` } }));

export const watchedMark = () => h("span", { class: "badge watched", role: "img", "aria-label": TEXT.watched }, icon("check"));

/** S1 E2, or the day on which it aired. @param {{ season?: number, episode?: number, lastEpisode?: number, releasedOn?: string }} item */
export function episodeLabel({ season, episode, lastEpisode, releasedOn }) {
  if (episode === null) return releasedOn ? formatDate(releasedOn) : "";
  const number = lastEpisode && lastEpisode !== episode ? `${episode}–${lastEpisode}` : String(episode);
  return season === null ? TEXT.episodeNumber(number) : season === 0 ? TEXT.special(number) : TEXT.seasonEpisode(season, number);
}

/** The title of an item as it is shown alone: an episode has that of its series. */
export const headlineOf = (item) => item.seriesTitle ?? item.title;

/** The line below the title: S1 E2 and the episode, the year, the artist or the day. */
export function lineOf(item) {
  if (item.kind === "episode") return [episodeLabel(item), item.title].filter(Boolean).join(" · ");
  if (item.kind === "homeVideo") return item.releasedOn ? formatDate(item.releasedOn) : item.year ? String(item.year) : null;
  if (item.kind === "music" || item.kind === "audiobook") return item.artist;
  return item.year ? String(item.year) : null;
}

/** Progress in an item, percent; 0 once it is completed. */
export const percentOf = ({ progress }) => (progress && !progress.completed ? progress.progressPercentage : 0);

/** How much is left of an item, in words; null without progress. */
export function remainingOf({ progress }) {
  const remaining = progress && !progress.completed ? progress.durationSeconds - progress.positionSeconds : 0;
  return remaining > 0 && progress.positionSeconds > 0 ? TEXT.left(formatLength(remaining)) : null;
}

/** A tile that opens the page of an item. */
export const itemTile = (item, shape) => tile({
  href: item.kind === "audiobook" ? bookLink(item.mediaPath) : item.kind === "music" ? albumLink(folderOf(item.mediaPath), item.album) : itemLink(item.id),
  kind: item.kind, shape, title: headlineOf(item), line: lineOf(item), artwork: item.artwork, percent: percentOf(item), isWatched: item.watched,
});

/** A tile that plays an item at once. */
export const playTile = (item, line = remainingOf(item)) => tile({
  href: playLink(item.mediaPath), kind: item.kind, shape: "still", title: headlineOf(item), artwork: item.artwork, percent: percentOf(item),
  line: [item.kind === "episode" ? episodeLabel(item) : null, line].filter(Boolean).join(" · "), playLabel: true,
});

export const seriesTile = (series) => tile({
  href: seriesLink(series.id), kind: "series", title: series.title, artwork: series.artwork,
  line: [series.year, series.seasonCount > 1 ? TEXT.seasons(series.seasonCount) : TEXT.episodes(series.episodeCount)].filter(Boolean).join(" · "),
  count: series.episodeCount - series.watchedCount, isWatched: series.episodeCount > 0 && series.watchedCount === series.episodeCount,
});

/** The last tile of a row, which opens all of it. */
const showAllTile = (href, shape) => h("a", { class: `tile ${shape} show-all`, href }, h("span", { class: `art ${shape}` }, icon("ahead"), TEXT.showAll));

/** Tiles side by side, which scroll sideways: by finger, keys, or its arrows for a mouse. `href` opens all. Null without tiles. */
export function row(key, title, tiles, href) {
  if (!tiles.length) return null;
  const shape = ["poster", "square"].find((name) => tiles[0].classList.contains(name)) ?? "still";
  const cards = h("div", { class: "cards" }, ...tiles, href && showAllTile(href, shape));
  const scroll = (direction) => cards.scrollBy({ left: direction * 0.85 * cards.clientWidth, behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  const arrow = (name, direction) => iconButton(name, direction < 0 ? TEXT.scrollBack : TEXT.scrollOn, () => scroll(direction), { tabindex: -1, class: `round arrow ${direction < 0 ? "to-start" : "to-end"}` });
  const arrows = [arrow("back", -1), arrow("ahead", 1)];
  const update = () => {
    arrows[0].disabled = cards.scrollLeft < 8;
    arrows[1].disabled = cards.scrollLeft + cards.clientWidth > cards.scrollWidth - 8;
  };
  cards.addEventListener("scroll", update, { passive: true });
  new ResizeObserver(update).observe(cards);
  return h("section", { class: "row", "data-row": key },
    // For pointers; keys reach the last tile, and go from row to row without a stop in between.
    h("h2", {}, href ? h("a", { href, tabindex: -1 }, title, icon("ahead")) : title),
    h("div", { class: "row-body" }, cards, ...arrows));
}
