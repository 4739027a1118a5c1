// The page of a series: what to watch next, its seasons and their episodes.

import * as api from "./api.js";
import { artBox, backdrop } from "./artwork.js";
import { h, icon } from "./dom.js";
import { listenToEvents } from "./events.js";
import { formatDate, formatLength } from "./format.js";
import { itemLink, libraryLink, playLink } from "./links.js";
import { makeChannelButton, ruleItem } from "./make-channel.js";
import { TEXT } from "./strings.js";
import { episodeLabel, progressBar, remainingOf, watchedMark } from "./tiles.js";

/** Shows the series; `place` has the season that was chosen. */
export async function showSeries(stage, params, place) {
  const id = params.get("id") ?? "";
  const abort = new AbortController();
  let chosen = place?.season;
  const render = async () => {
    const answer = await api.getSeries(id);
    if (abort.signal.aborted) return;
    const { series, seasons, nextEpisode } = answer;
    document.title = `${series.title} – Hearthcast`;
    chosen ??= String(nextEpisode?.season ?? seasons[0]?.season ?? null);
    const list = h("ol", { class: "episodes" });
    const choose = (season) => {
      chosen = season;
      for (const button of tabs.children) button.setAttribute("aria-pressed", String(button.dataset.season === season));
      list.replaceChildren(...(seasons.find((one) => String(one.season) === season) ?? seasons[0]).episodes.map(episodeRow));
    };
    const tabs = h("div", { class: "season-tabs", hidden: seasons.length < 2 }, ...seasons.map(({ season }) =>
      h("button", { type: "button", "data-season": String(season), "data-key": `season-${season}`, onclick: () => choose(String(season)) }, TEXT.seasonName(season))));
    choose(chosen);
    const art = artworkOf(series, seasons);
    const focusedKey = stage.contains(document.activeElement) && keyOf(document.activeElement);
    stage.replaceChildren(h("article", { class: "item poster-item" },
      backdrop({ kind: "series", title: series.title, artwork: art }),
      h("div", { class: "item-head" },
        artBox({ shape: "poster", kind: "series", title: series.title, artwork: art, widthRem: 17, isEager: true }),
        h("div", { class: "item-text" },
          h("p", { class: "way" }, h("a", { href: libraryLink("series"), "aria-label": TEXT.backTo(TEXT.kindNames.series) }, icon("back"), TEXT.kindNames.series)),
          h("h1", {}, series.title),
          h("p", { class: "item-facts" }, ...[series.year, TEXT.seasons(seasons.length), TEXT.episodes(series.episodeCount),
            series.watchedCount > 0 && TEXT.watchedOf(series.watchedCount, series.episodeCount)].filter(Boolean).map((fact) => h("span", { class: "fact" }, String(fact)))),
          createActions(series, seasons, nextEpisode))),
      h("section", { class: "seasons", "aria-label": TEXT.episodeList }, seasons.length < 2 ? h("h2", {}, TEXT.seasonName(seasons[0]?.season ?? null)) : h("h2", { class: "visually-hidden" }, TEXT.episodeList), tabs, list)));
    if (focusedKey) [...stage.querySelectorAll("a, button")].find((element) => keyOf(element) === focusedKey)?.focus({ preventScroll: true });
  };
  await render();
  let timer = null;
  listenToEvents((name, data) => {
    const isOfSeries = name === "library.changed" || (name.startsWith("progress.") && !data.audiobook);
    if (!isOfSeries) return;
    clearTimeout(timer);
    timer = setTimeout(() => render().catch(() => {}), 1000);
  }, abort.signal);
  return {
    getPlace: () => ({ season: chosen }),
    leave() {
      clearTimeout(timer);
      abort.abort();
    },
  };
}

const keyOf = (element) => element.getAttribute("href") ?? element.dataset.key;

/** The artwork of a series; without a backdrop, the frame of an episode. */
function artworkOf({ artwork }, seasons) {
  const thumbnail = seasons.flatMap(({ episodes }) => episodes).find((episode) => episode.artwork?.thumbnail)?.artwork.thumbnail;
  return { ...(thumbnail && { thumbnail }), ...artwork };
}

function createActions(series, seasons, next) {
  const first = seasons[0]?.episodes[0];
  const episode = next ?? first;
  if (!episode) return "";
  const resume = episode.progress?.resumePositionSeconds ?? 0;
  const isBegun = next && (resume > 0 || seasons.some(({ episodes }) => episodes.some(({ watched }) => watched)));
  const label = isBegun ? TEXT.continueEpisode(episodeLabel(episode)) : TEXT.playEpisode(episodeLabel(episode));
  return h("div", { class: "actions" },
    h("a", { class: "button primary", href: playLink(episode.mediaPath), "data-first": true }, icon("play"), label),
    h("a", { class: "button", href: itemLink(episode.id) }, icon("info"), TEXT.details),
    makeChannelButton({ name: series.title, order: "sequential", getItems: () => [ruleItem("series", series.id)] }),
    resume > 0 && h("span", {}, remainingOf(episode)));
}

function episodeRow(episode) {
  const { progress } = episode;
  const percent = progress && !progress.completed ? progress.progressPercentage : 0;
  const facts = [episode.durationSeconds && formatLength(episode.durationSeconds), episode.releasedOn && formatDate(episode.releasedOn), percent > 0 && remainingOf(episode)];
  const label = episodeLabel(episode);
  return h("li", { class: "episode" },
    h("a", { class: "episode-still", href: playLink(episode.mediaPath), "aria-label": `${TEXT.play}: ${[label, episode.title].filter(Boolean).join(" · ")}` },
      artBox({ shape: "still", kind: "episode", title: episode.title, artwork: episode.artwork, widthRem: 14 },
        h("span", { class: "play-mark" }, icon("play")), episode.watched && watchedMark(), percent > 0 && progressBar(percent))),
    h("a", { class: "episode-text", href: itemLink(episode.id) },
      h("span", { class: "muted" }, label),
      h("span", { class: "title" }, episode.title),
      h("span", { class: "muted" }, facts.filter(Boolean).join(" · "))));
}
