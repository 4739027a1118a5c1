// The page of a film, an episode, a home video or a file: what it is, how to play it, and the technical information at one press.

import { setLanguages } from "./account-preferences.js";
import * as api from "./api.js";
import { artBox, backdrop } from "./artwork.js";
import { describeClient } from "./capabilities.js";
import { h, icon, iconButton } from "./dom.js";
import { formatClock, formatDate, formatLength } from "./format.js";
import { focus } from "./keys.js";
import { bookLink, folderLink, folderOf, isAudiobook, itemLink, libraryLink, nameOf, personLink, playLink, seriesLink, stem } from "./links.js";
import { mediaInfo, qualityMarks } from "./media-info.js";
import { TEXT, errorText } from "./strings.js";
import { SHAPES, episodeLabel, itemTile, percentOf, progressBar, row, tile } from "./tiles.js";
import { audioChoices, recallLanguages, subtitleChoices } from "./tracks.js";

/** Extras and other versions to look through at most. */
const MAX_RELATED = 200;

const MAX_CAST = 20;

/** Shows the item with this id, or the file at this path. */
export async function showItem(stage, params) {
  const page = new ItemPage(stage);
  await page.open(params.get("id"), params.get("path"));
  return { leave: () => page.abort.abort() };
}

class ItemPage {
  constructor(stage) {
    this.stage = stage;
    this.abort = new AbortController();
    this.tracks = {}; // What was chosen here, as `playLink` takes it.
  }

  async open(id, path) {
    if (id) {
      this.details = await api.getItem(id);
      this.path = this.details.item.mediaPath;
      // The file may have to be probed; what is known is shown first.
      this.info = null;
      this.render();
      this.loadInfo();
    } else {
      this.path = path ?? "";
      this.info = await this.getInfo();
      this.details = await api.getItem(this.info.mediaId).catch(() => null);
      this.render();
    }
    this.loadRelated();
  }

  getInfo() {
    return describeClient().then((client) => api.getMediaInfo(this.path, client, this.abort.signal));
  }

  async loadInfo() {
    try {
      this.info = await this.getInfo();
    } catch (error) {
      if (error.name !== "AbortError") this.showNotice(error);
      return;
    }
    if (!this.abort.signal.aborted) this.fillInfo();
  }

  get item() {
    return this.details?.item;
  }

  get progress() {
    return this.info ? this.info.watchProgress : this.item?.progress;
  }

  get title() {
    return this.item?.title ?? this.info.description?.title ?? this.info.tags?.title ?? stem(nameOf(this.path));
  }

  get kind() {
    return this.item?.kind ?? (this.info.tracks.video.length > 0 ? "film" : "music");
  }

  render() {
    const { item, kind, title } = this;
    const description = this.details?.description ?? this.info?.description;
    document.title = `${title} – Hearthcast`;
    this.notice = h("p", { class: "notice", role: "alert", hidden: true });
    this.actions = h("div", { class: "actions" });
    this.pickers = h("div", { class: "track-pickers" });
    this.extra = h("div", { class: "item-extra" });
    this.related = h("div", { class: "related" });
    this.description = description;
    this.factsLine = this.createFacts();
    const shape = SHAPES[kind] ?? "poster";
    this.stage.replaceChildren(
      h("article", { class: `item ${shape}-item` },
        backdrop({ kind, title, artwork: item?.artwork }),
        h("div", { class: "item-head" },
          artBox({ shape, kind, title, artwork: item?.artwork, widthRem: shape === "still" ? 24 : 17, isEager: true }),
          h("div", { class: "item-text" },
            this.createWay(),
            h("h1", {}, title),
            this.factsLine,
            description?.tagline && h("p", { class: "tagline" }, description.tagline),
            this.actions, this.notice, this.pickers,
            description?.plot && h("p", { class: "plot" }, description.plot),
            this.createCredits(description))),
        createCast(description?.people ?? []),
        this.related, this.extra));
    this.renderActions();
    if (this.info) this.fillInfo();
  }

  /** The way back: the series of an episode, otherwise the folder of a file that is no item. */
  createWay() {
    const { item } = this;
    if (item?.seriesId) {
      return h("p", { class: "way" }, h("a", { href: seriesLink(item.seriesId) }, icon("back"), item.seriesTitle), episodeLabel(item) && ` · ${episodeLabel(item)}`);
    }
    const [href, name] = item && item.kind !== "music" && item.kind !== "extra" ? [libraryLink(item.kind), TEXT.kindNames[item.kind]] : [folderLink(folderOf(this.path)), nameOf(folderOf(this.path))];
    return h("p", { class: "way" }, h("a", { href, "aria-label": TEXT.backTo(name) }, icon("back"), name));
  }

  createFacts() {
    const { item, description } = this;
    const seconds = item?.durationSeconds ?? this.info?.probe.durationSeconds;
    const rating = description?.ratings?.find(({ source }) => source !== "user") ?? description?.ratings?.[0];
    const genres = item?.genres.length ? item.genres : description?.genres ?? [];
    const released = item?.releasedOn && item.kind !== "film" ? formatDate(item.releasedOn) : null;
    const marks = this.info ? qualityMarks(this.info).map((mark) => h("span", { class: "fact-mark" }, mark)) : [];
    return h("p", { class: "item-facts" }, ...[
      released ?? item?.year ?? description?.year, seconds && formatLength(seconds), description?.mpaa && h("span", { class: "fact-mark" }, description.mpaa),
      rating && h("span", { title: rating.source, "aria-label": TEXT.rated(rating.value), role: "img" }, `★ ${TEXT.rating(rating.value)}`),
      genres.length > 0 && h("span", {}, ...genres.slice(0, 3).flatMap((genre, n) => [n > 0 && ", ",
        item?.kind === "film" ? h("a", { href: libraryLink("film", { genre }) }, genre) : genre])),
    ].filter(Boolean).map((fact) => h("span", { class: "fact" }, fact)), marks.length > 0 && h("span", { class: "quality-marks" }, ...marks));
  }

  createCredits(description) {
    const names = (kind) => [...new Set((description?.people ?? []).filter((person) => person.kind === kind).map(({ name }) => name))].slice(0, 4);
    const credit = (label, people) => people.length > 0 && h("div", {}, h("dt", {}, label),
      h("dd", {}, ...people.flatMap((name, n) => [n > 0 && ", ", h("a", { href: personLink(name) }, name)])));
    const credits = [credit(TEXT.director, names("director")), credit(TEXT.writer, names("writer")),
      description?.studio && h("div", {}, h("dt", {}, TEXT.studio), h("dd", {}, description.studio))].filter(Boolean);
    return credits.length > 0 && h("dl", { class: "credits" }, ...credits);
  }

  renderActions() {
    const { progress, path } = this;
    const hadFocus = this.actions.contains(document.activeElement);
    const resume = progress?.resumePositionSeconds ?? 0;
    const play = (at, label, isFirst) => h("a", { class: `button${isFirst ? " primary" : ""}`, href: playLink(path, at, this.tracks), "data-first": isFirst || null, "data-at": at ?? "" },
      icon(isFirst ? "play" : "start"), label);
    const change = (label, name, work) => iconButton(name, label, () => this.change(work));
    const hasVideo = this.kind !== "music" && (this.info?.tracks.video.length ?? 1) > 0;
    this.actions.replaceChildren(...(this.kind === "audiobook" || isAudiobook(path)
      ? [h("a", { class: "button primary", href: bookLink(path), "data-first": true }, icon("book"), TEXT.listen)]
      : [resume > 0 ? play(undefined, TEXT.resume(formatClock(resume)), true) : play(0, TEXT.play, true),
        resume > 0 && play(0, TEXT.playFromStart, false),
        !hasVideo && h("a", { class: "button", href: bookLink(path) }, TEXT.listen)]).filter(Boolean),
    ...[!progress?.completed && change(TEXT.markWatched, "check", () => api.markWatched(path)),
      progress && change(progress.completed ? TEXT.markUnwatched : TEXT.clearProgress, "undo", () => api.deleteProgress(path))].filter(Boolean));
    const duration = progress?.durationSeconds;
    if (resume > 0 && duration > 0) this.actions.append(h("div", { class: "resume-bar" }, progressBar((resume / duration) * 100),
      h("span", { class: "muted" }, TEXT.left(formatLength(duration - resume)))));
    if (hadFocus) focus(this.actions.querySelector("[data-first]"));
  }

  async change(work) {
    try {
      await work();
      const [details, info] = await Promise.all([this.item ? api.getItem(this.item.id) : null, this.getInfo()]);
      [this.details, this.info] = [details ?? this.details, info];
      this.renderActions();
    } catch (error) {
      this.showNotice(error);
    }
  }

  showNotice(error) {
    this.notice.textContent = errorText(error);
    this.notice.hidden = false;
  }

  /** What is known once the file was probed: its tracks, chapters and technical information. */
  fillInfo() {
    const { info } = this;
    this.renderActions();
    const factsLine = this.createFacts();
    this.factsLine.replaceWith(factsLine);
    this.factsLine = factsLine;
    const isVideo = info.tracks.video.length > 0;
    if (isVideo && this.kind !== "audiobook") this.pickers.replaceChildren(...this.createPickers().filter(Boolean));
    const isBook = this.kind === "audiobook" || isAudiobook(this.path);
    const past = info.watchProgress?.positionHistory ?? [];
    this.extra.replaceChildren(...[
      past.length > 0 && h("p", { class: "muted" }, `${TEXT.earlierPositions} `, ...past.map(({ positionSeconds }) =>
        h("a", { class: "earlier-position", href: playLink(this.path, positionSeconds) }, formatClock(positionSeconds)))),
      info.chapters?.length > 0 && h("section", { class: "item-chapters" }, h("h2", {}, TEXT.chapters),
        h("ol", {}, ...info.chapters.map(({ title, startSeconds, index }) => {
          const parts = [h("span", { class: "muted" }, formatClock(startSeconds)), h("span", {}, title ?? TEXT.chapter(index + 1))];
          return h("li", {}, isBook ? h("span", { class: "chip" }, ...parts) : h("a", { class: "chip", href: playLink(this.path, startSeconds) }, ...parts));
        }))),
      mediaInfo(info, this.details?.mediaPaths ?? []),
    ].filter(Boolean));
  }

  createPickers() {
    const [audios, subtitles] = [audioChoices(this.info), subtitleChoices(this.info)];
    recallLanguages(this.path, audios, subtitles);
    const off = { value: "off", label: TEXT.off, chosen: !subtitles.some(({ chosen }) => chosen) };
    return [
      audios.length > 1 && this.createPicker(TEXT.audio, audios, ({ value, language }) => {
        this.tracks.audio = value;
        setLanguages(this.path, { audio: language });
      }),
      subtitles.length > 0 && this.createPicker(TEXT.subtitles, [off, ...subtitles], ({ value, subtitle }) => {
        this.tracks.subtitles = value;
        setLanguages(this.path, { subtitle: subtitle ? subtitle.language ?? null : "off" });
      }),
    ];
  }

  createPicker(label, choices, choose) {
    const select = h("select", { onchange: () => {
      choose(choices[select.selectedIndex]);
      for (const link of this.actions.querySelectorAll("[data-at]")) link.href = playLink(this.path, link.dataset.at === "" ? undefined : Number(link.dataset.at), this.tracks);
    } }, ...choices.map(({ value, label: text, chosen }) => h("option", { value, selected: chosen }, text)));
    return h("label", { class: "track-picker" }, h("span", {}, label), select);
  }

  /** Extras and other versions of a film, and the other episodes of a season. */
  async loadRelated() {
    const { item } = this;
    const rows = item?.kind === "film" ? await findFilmRelations(item) : item?.seriesId && item.kind === "episode" ? [await findSeason(item)] : [];
    if (this.abort.signal.aborted) return;
    this.related.replaceChildren(...rows.filter(Boolean));
    this.related.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }
}

function createCast(people) {
  const actors = people.filter(({ kind }) => kind === "actor").slice(0, MAX_CAST);
  return row("cast", TEXT.cast, actors.map(({ name, role }) => h("a", { class: "person", href: personLink(name) },
    h("span", { class: "initials", "aria-hidden": "true" }, name.split(/\s+/).map((word) => word[0]).slice(0, 2).join("").toUpperCase()),
    h("span", { class: "title" }, name), role && h("span", { class: "muted" }, role)))) ?? "";
}

async function findFilmRelations(film) {
  const folder = folderOf(film.mediaPath);
  const [extras, others, similar] = await Promise.all([
    api.getItems({ kind: "extra", folder, limit: MAX_RELATED }).catch(() => ({ items: [] })),
    film.year === null ? { items: [] } : api.getItems({ kind: "film", year: film.year, limit: MAX_RELATED }).catch(() => ({ items: [] })),
    api.getSimilar(film.id).catch(() => ({ items: [] })),
  ]);
  const versions = others.items.filter(({ id, sortTitle }) => id !== film.id && sortTitle === film.sortTitle);
  // In a folder of many films the extras are those of all.
  const films = extras.items.length ? await api.getItems({ kind: "film", folder, limit: 2 }).catch(() => ({ total: 0 })) : { total: 0 };
  return [
    row("versions", TEXT.versions, versions.map((version) => itemTile({ ...version, year: null, title: stem(nameOf(version.mediaPath)) }, "still"))),
    films.total === 1 && row("extras", TEXT.extras, extras.items.map((extra) => itemTile(extra))),
    row("similar", TEXT.similar, similar.items.map((other) => itemTile(other))),
  ];
}

async function findSeason(episode) {
  const { seasons } = await api.getSeries(episode.seriesId).catch(() => ({ seasons: [] }));
  const season = seasons.find(({ episodes }) => episodes.some(({ id }) => id === episode.id));
  if (!season || season.episodes.length < 2) return null;
  return row("season", TEXT.seasonName(season.season), season.episodes.map((other) => {
    const element = tile({ href: itemLink(other.id), kind: "episode", title: other.title, line: episodeLabel(other), artwork: other.artwork, isWatched: other.watched, percent: percentOf(other) });
    if (other.id === episode.id) element.setAttribute("aria-current", "true");
    return element;
  }), seriesLink(episode.seriesId));
}
