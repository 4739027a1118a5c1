// The page of an album: its cover and its tracks.

import * as api from "./api.js";
import { artBox, backdrop } from "./artwork.js";
import { h, icon } from "./dom.js";
import { formatClock, formatLength } from "./format.js";
import { discOf } from "./library-kinds.js";
import { artistLink, bookLink, libraryLink, nameOf, playLink } from "./links.js";
import { TEXT, pageError } from "./strings.js";

/** Tracks of an album at most. */
const MAX_TRACKS = 200;

export async function showAlbum(stage, params) {
  const [folder, album] = [params.get("folder") ?? "", params.get("album")];
  const { items } = await api.getItems({ kind: "music", folder, limit: MAX_TRACKS });
  const tracks = items.filter((item) => (item.album ?? nameOf(folder)) === (album ?? nameOf(folder)));
  if (tracks.length === 0) throw pageError(TEXT.missingFolder);
  const title = album ?? nameOf(folder);
  const artists = [...new Set(tracks.map(({ artist }) => artist).filter(Boolean))];
  const artwork = tracks.find((track) => track.artwork)?.artwork;
  const seconds = tracks.reduce((sum, { durationSeconds }) => sum + (durationSeconds ?? 0), 0);
  const discs = groupByDisc(tracks);
  document.title = `${title} – Hearthcast`;
  const facts = [artists.length === 1 ? h("a", { href: artistLink(artists[0]) }, artists[0]) : artists.length > 1 && TEXT.variousArtists, tracks.find(({ year }) => year)?.year, TEXT.counts.tracks(tracks.length), seconds > 0 && formatLength(seconds)];
  stage.replaceChildren(h("article", { class: "item square-item" },
    backdrop({ kind: "album", title }),
    h("div", { class: "item-head" },
      artBox({ shape: "square", kind: "album", title, artwork, widthRem: 17, isEager: true }),
      h("div", { class: "item-text" },
        h("p", { class: "way" }, h("a", { href: libraryLink("music"), "aria-label": TEXT.backTo(TEXT.kindNames.music) }, icon("back"), TEXT.kindNames.music)),
        h("h1", {}, title),
        h("p", { class: "item-facts" }, ...facts.filter(Boolean).map((fact) => h("span", { class: "fact" }, typeof fact === "number" ? String(fact) : fact))),
        h("div", { class: "actions" },
          h("a", { class: "button primary", href: playLink(discs[0][1][0].mediaPath, 0), "data-first": true }, icon("play"), TEXT.playAlbum),
          h("a", { class: "button", href: bookLink(folder) }, icon("book"), TEXT.playAsAudiobook)))),
    ...discs.map(([disc, ofDisc]) => h("section", { class: "disc" },
      discs.length > 1 && h("h2", {}, TEXT.disc(disc)),
      h("ol", { class: "track-list" }, ...ofDisc.map((track, n) => trackRow(track, n, artists.length > 1)))))));
}

/** Pairs of a disc and its tracks, by number. @param {any[]} tracks @returns {Array<[number, any[]]>} */
export function groupByDisc(tracks) {
  const numbers = [...new Set(tracks.map(discOf))].sort((a, b) => a - b);
  return numbers.map((disc) => [disc, tracks.filter((track) => discOf(track) === disc)]);
}

/** A track with its number; with its artist if they differ. */
const trackRow = (track, n, hasArtist) => h("li", {}, h("a", { class: "track", href: playLink(track.mediaPath, 0) },
  h("span", { class: "muted number" }, String(track.track ?? n + 1)),
  h("span", { class: "title" }, track.title, hasArtist && track.artist && h("span", { class: "muted" }, track.artist)),
  h("span", { class: "muted" }, track.durationSeconds ? formatClock(track.durationSeconds) : "")));
