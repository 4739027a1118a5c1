// A book that is read to one: a file, or a folder of files played behind each other on one line.

import * as api from "./api.js";
import { h, icon, iconButton, tint } from "./dom.js";
import { folderOf, libraryLink } from "./links.js";
import { deviceProfile } from "./profile.js";
import { attach } from "./source.js";
import { TEXT, clock, explain, lasting, since, time, waiting } from "./strings.js";
import { timeline } from "./timeline.js";
import { menu } from "./tracks.js";

const RATES = [0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3];
const SLEEPS = [15, 30, 45, 60];

/** The next file is made ready so long before the one that plays ends, seconds. */
const AHEAD = 20;
/** What breaks twice within so long is not begun again. */
const MENDED_MS = 10_000;
const NOTED_EVERY_MS = 10_000;

/** Places in a book that stay known, for as long as the window is open. */
const MOST_PAST = 10;
const pastKey = (book) => `hearthcast.past.${book}`;

function kept(book) {
  try {
    return JSON.parse(sessionStorage.getItem(pastKey(book))) ?? [];
  } catch {
    return [];
  }
}

function keep(book, past) {
  try {
    sessionStorage.setItem(pastKey(book), JSON.stringify(past));
  } catch {
    // Without storage they are known while the book is open.
  }
}

export async function book(stage, params) {
  const abort = new AbortController();
  const found = await api.book(params.get("path") ?? "", abort.signal);
  const player = new BookPlayer(stage, found, abort);
  const resume = found.progress && !found.progress.completed ? found.progress.positionSeconds : 0;
  player.go(resume, { play: true });
  return { leave: (how) => player.close(how), key: (name) => player.key(name) };
}

class BookPlayer {
  constructor(stage, found, abort) {
    this.book = found;
    this.abort = abort;
    this.turn = 0;
    this.noted = 0;
    this.mended = -Infinity;
    this.position = 0;
    this.rate = found.progress?.playbackRate ?? 1;
    this.deck = null; // What plays: { audio, file, letGo, session }.
    this.spare = null; // The next file, made ready.
    this.before = kept(found.mediaId); // Where one was before each jump, the newest last: { position, at }.
    this.sleepAt = null;
    document.title = `${found.title} – Hearthcast`;

    this.line = timeline((position) => this.jump(position));
    this.line.mark(found.chapters.map(({ startSeconds }) => startSeconds), found.durationSeconds);
    this.notice = h("p", { class: "notice", role: "alert", hidden: true });
    this.now = h("p", { class: "now-chapter", role: "status" });
    this.status = h("p", { class: "quiet", role: "status" });
    this.button = iconButton("play", TEXT.play, () => this.toggle(), { "data-first": true, "data-key": "play" });
    this.undo = h("button", { type: "button", hidden: true, onclick: () => this.goBack(this.before.length - 1) });
    this.past = h("select", { onchange: () => this.goBack(Number(this.past.value)) });
    this.pastMenu = h("label", { class: "menu" }, h("span", {}, TEXT.whereIWas), this.past);
    this.chapters = found.chapters.map(({ title, startSeconds, index }) => h("button", {
      type: "button", class: "chapter", "data-key": `chapter-${index}`, onclick: () => this.jump(startSeconds),
    }, h("span", {}, title ?? TEXT.chapter(index + 1)), h("span", { class: "quiet" }, clock(startSeconds))));
    const rates = RATES.map((rate) => ({ value: rate, label: `${rate}×`, chosen: rate === this.rate }));
    const sleeps = [{ value: 0, label: TEXT.off }, ...SLEEPS.map((n) => ({ value: n, label: TEXT.minutes(n) })),
      { value: -1, label: TEXT.chapterEnd }];
    this.deckPlace = h("div", { hidden: true });
    stage.replaceChildren(h("div", { class: "book" },
      h("div", { class: "heading" },
        h("a", { class: "back", href: libraryLink(folderOf(found.audiobookPath)), "aria-label": TEXT.backToFolder }, icon("back")),
        h("h1", {}, found.title)),
      h("div", { class: "cover", style: tint(found.title) }, icon("book")),
      h("div", { class: "desk" },
        this.now, this.line.element,
        h("div", { class: "buttons" },
          iconButton("previous", TEXT.previousChapter, () => this.chapter(-1)),
          iconButton("rewind", TEXT.rewind, () => this.jump(this.position - 10, { quiet: true })),
          this.button,
          iconButton("forward", TEXT.forward, () => this.jump(this.position + 30, { quiet: true })),
          iconButton("next", TEXT.nextChapter, () => this.chapter(1))),
        h("div", { class: "menus" },
          menu(TEXT.speed, rates, ({ value }) => this.speed(value)),
          menu(TEXT.sleep, sleeps, ({ value }) => this.sleep(value)), this.pastMenu, this.undo),
        this.status, this.notice, this.deckPlace),
      h("ol", { class: "chapters", "aria-label": TEXT.chapters }, ...this.chapters.map((chapter) => h("li", {}, chapter)))));
    // What the server kept when a device began anew by mistake.
    for (const { positionSeconds, at } of found.progress?.positionHistory?.toReversed() ?? []) {
      if (!this.before.some((known) => known.at === at)) this.before.push({ position: positionSeconds, at });
    }
    this.before.sort((a, b) => a.at.localeCompare(b.at));
    this.remember();
  }

  /** The file a place lies in. */
  fileAt(position) {
    const { files } = this.book;
    const behind = files.findIndex(({ startSeconds }) => startSeconds > position);
    return behind === -1 ? files.length - 1 : Math.max(0, behind - 1);
  }

  /** Goes to a place; in the file that plays at once, in another once that is open. */
  async go(position, { play }) {
    const end = this.book.durationSeconds;
    const wanted = Math.min(Math.max(0, position), Math.max(0, end - 0.5));
    const index = this.fileAt(wanted);
    const within = wanted - this.book.files[index].startSeconds;
    const mine = ++this.turn;
    this.show(wanted);
    if (this.deck?.index === index) {
      this.deck.audio.currentTime = within;
      if (play) this.deck.audio.play().catch(() => {});
      return;
    }
    try {
      const deck = this.spare?.index === index ? this.spare : await this.open(index, within);
      if (mine !== this.turn) {
        if (deck !== this.spare) this.close1(deck);
        return;
      }
      this.use(deck);
      if (deck.audio.readyState > 0 && Math.abs(deck.audio.currentTime - within) > 0.5) deck.audio.currentTime = within;
      if (play) await deck.audio.play().catch(() => {}); // A browser may want a press on the button first.
    } catch (error) {
      if (mine === this.turn) this.fail(error);
    }
  }

  /** Opens one file in an element of its own. */
  async open(index, within, force = false) {
    const file = this.book.files[index];
    // The next one is made ready in silence.
    const says = (text) => {
      if (!this.deck || this.deck.index !== index - 1 || !this.opening) this.status.textContent = text;
    };
    says(TEXT.preparing);
    const answer = await api.start({
      mediaPath: file.path, startPositionSeconds: Math.min(within, Math.max(0, file.durationSeconds - 0.1)),
      deviceProfile: deviceProfile(), forceTranscode: force,
    }, (error) => says(error ? waiting(error) : TEXT.preparing), this.abort.signal);
    const audio = h("audio", { preload: "auto" });
    audio.preservesPitch = true;
    const deck = { index, file, audio, session: answer.sessionId ? answer : null, letGo: () => {} };
    if (answer.sessionId) await since((seconds) => says(TEXT.preparingSince(seconds)), api.playable(answer.signedPlaylistUrl, this.abort.signal));
    says("");
    deck.letGo = await attach(audio, answer, within, (failure) => this.broken(deck, failure, force));
    audio.defaultPlaybackRate = this.rate;
    audio.playbackRate = this.rate;
    audio.addEventListener("timeupdate", () => deck === this.deck && this.tick());
    audio.addEventListener("ended", () => deck === this.deck && this.ended());
    audio.addEventListener("play", () => deck === this.deck && this.state());
    audio.addEventListener("pause", () => {
      if (deck !== this.deck) return;
      this.state();
      if (!audio.ended) this.note({ now: true });
    });
    return deck;
  }

  /** Puts a file on in place of the one before. */
  use(deck) {
    const old = this.deck;
    this.deck = deck;
    if (this.spare === deck) this.spare = null;
    if (this.spare) {
      this.close1(this.spare);
      this.spare = null;
    }
    this.deckPlace.replaceChildren(deck.audio);
    deck.audio.playbackRate = this.rate;
    if (old) this.close1(old);
    this.notice.hidden = true;
    this.state();
  }

  close1(deck) {
    deck.audio.pause();
    deck.letGo();
    if (deck.session) api.stop(deck.session);
  }

  tick() {
    const { audio, file, index } = this.deck;
    if (audio.seeking || audio.readyState < 2) return;
    this.show(file.startSeconds + audio.currentTime);
    this.note();
    const { files } = this.book;
    if (index + 1 < files.length && file.durationSeconds - audio.currentTime < AHEAD && !this.spare && !this.opening) {
      this.opening = true;
      this.open(index + 1, 0).then((deck) => {
        if (this.deck?.index === index && !this.abort.signal.aborted) this.spare = deck;
        else this.close1(deck);
      }).catch(() => {}).finally(() => { this.opening = false; });
    }
    if (this.sleepAt?.at && performance.now() > this.sleepAt.at) this.asleep();
    if (this.sleepAt?.chapterEnd && this.position >= this.sleepAt.chapterEnd - 0.3) this.asleep();
  }

  /** A file has come to its end: the next one, or the end of the book. */
  ended() {
    const next = this.book.files[this.deck.index + 1];
    if (next) this.go(next.startSeconds, { play: true });
    else {
      this.show(this.book.durationSeconds);
      this.note({ now: true, completed: true });
      this.state();
    }
  }

  show(position) {
    this.position = position;
    this.line.update(position, this.book.durationSeconds);
    const { chapters } = this.book;
    const index = this.chapterAt(position);
    if (index === this.shown) return;
    this.shown = index;
    this.now.textContent = chapters[index]?.title ?? TEXT.chapter(index + 1);
    this.chapters.forEach((chapter, n) => {
      if (n === index) chapter.setAttribute("aria-current", "true");
      else chapter.removeAttribute("aria-current");
    });
    this.chapters[index]?.scrollIntoView({ block: "nearest" });
  }

  chapterAt(position) {
    const behind = this.book.chapters.findIndex(({ startSeconds }) => startSeconds > position + 0.01);
    return behind === -1 ? this.book.chapters.length - 1 : Math.max(0, behind - 1);
  }

  /** To another chapter; back goes to the beginning of this one first. */
  chapter(step) {
    const index = this.chapterAt(this.position);
    const begun = this.position - this.book.chapters[index].startSeconds > 3;
    const wanted = this.book.chapters[step < 0 && begun ? index : Math.max(0, index + step)];
    if (wanted) this.jump(wanted.startSeconds);
  }

  /** Goes to a place one chose; a long jump can be taken back, and where one was stays known. */
  jump(position, { quiet = false } = {}) {
    const long = !quiet && Math.abs(position - this.position) > 5;
    if (long) this.before.push({ position: this.position, at: new Date().toISOString() });
    this.go(position, { play: !this.deck || !this.deck.audio.paused || !quiet });
    if (!long) return;
    this.remember();
    this.undo.textContent = TEXT.undo(clock(this.before.at(-1).position));
    this.undo.hidden = false;
  }

  /** Back to where one was. */
  goBack(index) {
    const [{ position }] = this.before.splice(index, 1);
    this.remember();
    this.undo.hidden = true;
    this.go(position, { play: true });
  }

  /** Keeps the last places, and offers them. */
  remember() {
    this.before = this.before.slice(-MOST_PAST);
    this.past.replaceChildren(h("option", { value: "" }, TEXT.now), ...this.before.map(({ position, at }, index) =>
      h("option", { value: index }, `${clock(position)} · ${this.book.chapters[this.chapterAt(position)]?.title ?? ""} · ${time(at)}`)).reverse());
    this.pastMenu.hidden = this.before.length === 0;
    keep(this.book.mediaId, this.before);
  }

  toggle() {
    const audio = this.deck?.audio;
    if (!audio) this.go(this.position, { play: true });
    else if (audio.paused) audio.play().catch(() => {});
    else audio.pause();
  }

  state() {
    const plays = this.deck && !this.deck.audio.paused;
    this.button.replaceChildren(icon(plays ? "pause" : "play"));
    this.button.setAttribute("aria-label", plays ? TEXT.pause : TEXT.play);
    this.button.title = plays ? TEXT.pause : TEXT.play;
    const left = this.book.durationSeconds - this.position;
    document.title = left > 1 ? `${this.book.title} (${TEXT.left(lasting(left))}) – Hearthcast` : `${this.book.title} – Hearthcast`;
  }

  speed(rate) {
    this.rate = rate;
    for (const deck of [this.deck, this.spare]) if (deck) deck.audio.playbackRate = rate;
    this.note({ now: true });
  }

  sleep(minutes) {
    const end = this.book.chapters[this.chapterAt(this.position)]?.endSeconds;
    this.sleepAt = minutes === 0 ? null
      : minutes < 0 ? { chapterEnd: end } : { at: performance.now() + minutes * 60_000 };
  }

  asleep() {
    this.sleepAt = null;
    this.deck.audio.pause();
    const menus = this.button.closest(".desk").querySelectorAll("select");
    menus[menus.length - 1].selectedIndex = 0;
  }

  /** Tells the server where in the book this is: every ten seconds, and at once where it may be the last word. */
  note({ now = false, completed = false, leaving = false } = {}) {
    const at = performance.now();
    if (!api.signedIn() || (!now && at - this.noted < NOTED_EVERY_MS)) return;
    // Nothing new: what another device has noted since must not be put back.
    const told = `${Math.round(2 * this.position)} ${this.rate} ${completed}`;
    if (told === this.told) return;
    [this.noted, this.told] = [at, told];
    api.saveBook({
      audiobookPath: this.book.audiobookPath, positionSeconds: this.position, durationSeconds: this.book.durationSeconds,
      playbackRate: this.rate, completed, player: "web",
    }, leaving).catch(() => {}); // Nobody listens to hear that it was not noted.
  }

  /** A file cannot be played: once more, converted, then it is said. */
  async broken(deck, { kind, detail }, force) {
    if (deck === this.spare) {
      this.spare = null;
      this.close1(deck);
    } else if (deck === this.deck && !force && performance.now() - this.mended > MENDED_MS) {
      this.mended = performance.now();
      const within = deck.audio.currentTime;
      const mine = ++this.turn;
      try {
        const again = await this.open(deck.index, within, kind === "unsupported");
        if (mine !== this.turn) return this.close1(again);
        this.use(again);
        await again.audio.play().catch(() => {});
      } catch (error) {
        this.fail(error);
      }
    } else this.fail(new Error(`Playback failed (${detail ?? kind}).`));
  }

  fail(error) {
    if (error.name === "AbortError") return;
    this.status.textContent = "";
    this.notice.textContent = explain(error);
    this.notice.hidden = false;
  }

  key(name) {
    const act = {
      Space: () => this.toggle(), MediaPlayPause: () => this.toggle(), MediaPlay: () => this.deck?.audio.play(),
      MediaPause: () => this.deck?.audio.pause(), MediaStop: () => history.back(),
      MediaRewind: () => this.jump(this.position - 10, { quiet: true }),
      MediaFastForward: () => this.jump(this.position + 30, { quiet: true }),
      PageUp: () => this.chapter(-1), PageDown: () => this.chapter(1),
    }[name];
    if (!act || (name === "Space" && document.activeElement?.matches("button, a"))) return false;
    act();
    return true;
  }

  close(how) {
    this.turn += 1;
    this.abort.abort();
    const begun = this.deck && this.position > 0;
    if (begun && !this.deck.audio.ended) this.note({ now: true, leaving: how?.leaving });
    for (const deck of [this.deck, this.spare]) if (deck) this.close1(deck);
    this.deck = null;
    this.spare = null;
  }
}
