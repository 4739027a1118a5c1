// Home: what to continue, what comes next and what is on.

import * as api from "./api.js";
import { h, icon, tint } from "./dom.js";
import { listenToEvents } from "./events.js";
import { bookLink, isAudiobook, libraryLink, playLink, watchLink } from "./links.js";
import { formatLength, formatTime } from "./format.js";
import { TEXT } from "./strings.js";

const ROW_LIMIT = 20;

/** Shows the rows that are not empty; playback on other devices updates them. */
export async function showHome(stage) {
  document.title = "Hearthcast";
  const abort = new AbortController();
  const render = async () => {
    const [inProgress, next, channels, books, completed] = await Promise.all([
      api.getHistory({ limit: ROW_LIMIT, status: "in_progress" }),
      api.getNextUp(ROW_LIMIT),
      api.getChannels({}).catch(() => ({ channels: [] })),
      api.getAudiobookHistory({ limit: ROW_LIMIT }),
      api.getHistory({ limit: ROW_LIMIT, status: "completed" }),
    ]);
    const inProgressPaths = new Set(inProgress.history.map(({ mediaPath }) => mediaPath));
    const rows = [
      row("continue-watching", TEXT.continueWatching, inProgress.history.map(historyTile)),
      row("next-up", TEXT.nextUp, next.nextUp.filter(({ mediaPath }) => !inProgressPaths.has(mediaPath)).map(nextUpTile)),
      row("on-now", TEXT.onNow, channels.channels.map(channelTile)),
      row("books", TEXT.books, books.history.map(bookTile)),
      row("watch-again", TEXT.watchAgain, completed.history.map(historyTile)),
    ].filter(Boolean);
    const scrollPositions = new Map([...stage.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row.querySelector(".cards").scrollLeft]));
    const focusedHref = stage.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    stage.replaceChildren(h("h1", { class: "visually-hidden" }, TEXT.home), ...(rows.length ? rows : [emptyCard()]));
    for (const [name, scrollLeft] of scrollPositions) {
      const cards = stage.querySelector(`[data-row="${name}"] .cards`);
      if (cards) cards.scrollLeft = scrollLeft;
    }
    if (focusedHref) stage.querySelector(`a[href="${CSS.escape(focusedHref)}"]`)?.focus({ preventScroll: true });
  };
  await render();
  let redrawTimer = null;
  listenToEvents(() => {
    clearTimeout(redrawTimer);
    redrawTimer = setTimeout(() => render().catch(() => {}), 300);
  }, abort.signal);
  return {
    leave() {
      clearTimeout(redrawTimer);
      abort.abort();
    },
  };
}

const emptyCard = () => h("div", { class: "card" },
  h("img", { src: api.resolvePath("/web/logo.svg"), alt: "", width: 56, height: 56 }), h("p", {}, TEXT.emptyHome),
  h("a", { class: "button primary", href: libraryLink(), "data-first": true }, TEXT.openLibrary));

function row(key, title, cards) {
  if (!cards.length) return null;
  return h("section", { class: "row", "data-row": key }, h("h2", {}, title), h("div", { class: "cards" }, ...cards));
}

/** A tile: artwork, progress and two lines. */
function tile({ href, kind, name, title, line, percent, artwork, isUnavailable }) {
  return h("a", { class: isUnavailable ? "tile unavailable" : "tile", href },
    h("div", { class: "artwork", style: tint(name ?? title) },
      artwork ? h("img", { src: artwork, alt: "", loading: "lazy" }) : icon(kind),
      percent > 0 && h("div", { class: "progress" }, h("div", { style: { width: `${Math.min(100, percent)}%` } }))),
    h("span", { class: "title" }, title),
    line && h("span", { class: "muted" }, line));
}

function historyTile(record) {
  const remaining = record.durationSeconds - record.positionSeconds;
  return tile({
    href: isAudiobook(record.mediaPath) ? bookLink(record.mediaPath) : playLink(record.mediaPath),
    kind: record.mediaType === "audio" ? "audio" : "video",
    title: record.title,
    line: record.available === false ? TEXT.unavailable : !record.completed && remaining > 0 ? TEXT.left(formatLength(remaining)) : null,
    percent: record.completed ? 0 : record.progressPercentage,
    isUnavailable: record.available === false,
  });
}

const nextUpTile = ({ mediaPath, title }) => tile({ href: playLink(mediaPath), kind: "video", title, line: TEXT.nextEpisode });

function bookTile(record) {
  return tile({
    href: bookLink(record.audiobookPath),
    kind: "book",
    title: record.title,
    line: record.available === false ? TEXT.unavailable
      : record.completed ? null : TEXT.left(formatLength(record.durationSeconds - record.positionSeconds)),
    percent: record.completed ? 0 : record.progressPercentage,
    isUnavailable: record.available === false,
  });
}

function channelTile({ id, name, number, logoUrl, now }) {
  const elapsed = now && (Date.now() - Date.parse(now.start)) / (Date.parse(now.end) - Date.parse(now.start));
  return tile({
    href: watchLink(id),
    kind: "tv",
    name,
    title: now?.title ?? name,
    line: `${number} ${name}${now ? ` · ${TEXT.until(formatTime(now.end))}` : ""}`,
    percent: now ? elapsed * 100 : 0,
    artwork: logoUrl?.startsWith("/") ? api.resolvePath(logoUrl) : null,
  });
}
