// Where one begins: what was begun, what is on, what comes next.

import * as api from "./api.js";
import { h, icon, tint } from "./dom.js";
import { listen } from "./events.js";
import { bookLink, libraryLink, playLink, watchLink } from "./links.js";
import { TEXT, lasting, time } from "./strings.js";

const ROW = 20;

/** Shows the rows that have something in them; what another device plays moves here by itself. */
export async function home(stage) {
  document.title = "Hearthcast";
  const abort = new AbortController();
  const draw = async () => {
    const [begun, next, channels, books, done] = await Promise.all([
      api.history({ limit: ROW, status: "in_progress" }),
      api.nextUp(ROW),
      api.channels({}).catch(() => ({ channels: [] })),
      api.books({ limit: ROW }),
      api.history({ limit: ROW, status: "completed" }),
    ]);
    const known = new Set(begun.history.map(({ mediaPath }) => mediaPath));
    const rows = [
      row("go-on", TEXT.goOn, begun.history.map(watched)),
      row("next-up", TEXT.nextUp, next.nextUp.filter(({ mediaPath }) => !known.has(mediaPath)).map(upcoming)),
      row("on-now", TEXT.onNow, channels.channels.map(channel)),
      row("books", TEXT.books, books.history.map(book)),
      row("watched", TEXT.watched, done.history.map(watched)),
    ].filter(Boolean);
    const places = new Map([...stage.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row.querySelector(".cards").scrollLeft]));
    const key = stage.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    stage.replaceChildren(h("h1", { class: "unseen" }, TEXT.home), ...(rows.length ? rows : [empty()]));
    for (const [name, place] of places) {
      const cards = stage.querySelector(`[data-row="${name}"] .cards`);
      if (cards) cards.scrollLeft = place;
    }
    if (key) stage.querySelector(`a[href="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  };
  await draw();
  let waiting = null;
  listen(() => {
    clearTimeout(waiting);
    waiting = setTimeout(() => draw().catch(() => {}), 300);
  }, abort.signal);
  return {
    leave() {
      clearTimeout(waiting);
      abort.abort();
    },
  };
}

const empty = () => h("div", { class: "card" },
  h("img", { src: api.at("/web/logo.svg"), alt: "", width: 56, height: 56 }), h("p", {}, TEXT.fresh),
  h("a", { class: "button primary", href: libraryLink(), "data-first": true }, TEXT.toLibrary));

function row(key, title, cards) {
  if (!cards.length) return null;
  return h("section", { class: "row", "data-row": key }, h("h2", {}, title), h("div", { class: "cards" }, ...cards));
}

/** A tile: a face, how far it is, and two lines. */
export function tile({ href, kind, name, title, line, share, art, faded }) {
  return h("a", { class: faded ? "tile faded" : "tile", href },
    h("div", { class: "face", style: tint(name ?? title) },
      art ? h("img", { src: art, alt: "", loading: "lazy" }) : icon(kind),
      share > 0 && h("div", { class: "share" }, h("div", { style: { width: `${Math.min(100, share)}%` } }))),
    h("span", { class: "title" }, title),
    line && h("span", { class: "quiet" }, line));
}

function watched(record) {
  const left = record.durationSeconds - record.positionSeconds;
  return tile({
    href: playLink(record.mediaPath),
    kind: record.mediaType === "audio" ? "audio" : "video",
    title: record.title,
    line: record.available === false ? TEXT.gone : !record.completed && left > 0 ? TEXT.left(lasting(left)) : null,
    share: record.completed ? 0 : record.progressPercentage,
    faded: record.available === false,
  });
}

const upcoming = ({ mediaPath, title, after }) => tile({ href: playLink(mediaPath), kind: "video", title, line: `after ${after.title}` });

function book(record) {
  return tile({
    href: bookLink(record.audiobookPath),
    kind: "book",
    title: record.title,
    line: record.available === false ? TEXT.gone
      : record.completed ? null : TEXT.left(lasting(record.durationSeconds - record.positionSeconds)),
    share: record.completed ? 0 : record.progressPercentage,
    faded: record.available === false,
  });
}

function channel({ id, name, number, logoUrl, now }) {
  const begun = now && (Date.now() - Date.parse(now.start)) / (Date.parse(now.end) - Date.parse(now.start));
  return tile({
    href: watchLink(id),
    kind: "tv",
    name,
    title: now?.title ?? name,
    line: `${number} ${name}${now ? ` · ${TEXT.until(time(now.end))}` : ""}`,
    share: now ? begun * 100 : 0,
    art: logoUrl?.startsWith("/") ? api.at(logoUrl) : null,
  });
}
