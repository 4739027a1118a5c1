// One file on screen: asks how it can be played, plays it, and starts over at the same moment when a choice changes.

import * as api from "./api.js";
import { Controls } from "./controls.js";
import { h } from "./dom.js";
import { folderOf, libraryLink, nameOf, playLink, stem } from "./links.js";
import { deviceProfile } from "./profile.js";
import { attach } from "./source.js";
import { TEXT, describe, explain, since, waiting } from "./strings.js";
import { audioChoices, menu, rateChoices, showSubtitle, sizeChoices, subtitleChoices } from "./tracks.js";

/** What follows is offered so long before the end, seconds. */
const OFFER = 20;
const NOTED_EVERY_MS = 10_000;

/** Chapters one may want to skip, by their names. */
const SKIPPED = /^(intro|opening|recap|credits|ending|outro|vorspann|abspann|rückblick)\b/i;

/** Plays the file at `path` in `stage`. */
export function play(stage, params) {
  const at = params.get("at");
  const player = new Player(stage, params.get("path") ?? "", at === null ? null : Number(at));
  player.open();
  return { leave: (how) => player.close(how), key: (name) => player.key(name) };
}

class Player {
  constructor(stage, path, at) {
    this.path = path;
    this.at = at;
    this.abort = new AbortController();
    this.wish = { audio: null, burn: null, resolution: "original", force: false };
    this.turn = 0;
    this.revived = 0;
    this.noted = -Infinity;
    this.told = -Infinity;
    this.session = null;
    this.letGo = () => {};
    this.controls = new Controls({
      title: stem(nameOf(path)),
      up: libraryLink(folderOf(path)),
      upLabel: TEXT.backToFolder,
      seek: (position) => this.seek(position),
      stats: () => this.stats(),
    });
    stage.replaceChildren(this.controls.element);
    document.title = `${stem(nameOf(path))} – Hearthcast`;
  }

  async open() {
    try {
      const info = await api.info(this.path, deviceProfile(), this.abort.signal);
      this.show(info);
      await this.begin(this.at ?? info.watchProgress?.resumePositionSeconds ?? 0);
      this.follow();
    } catch (error) {
      this.fail(error);
    }
  }

  /** The element and the choices that fit the item. */
  show(info) {
    const picture = info.tracks.video.length > 0;
    this.info = info;
    this.kind = picture ? "video" : "audio";
    this.media = h(this.kind, { playsinline: true, preload: "auto" });
    this.media.addEventListener("timeupdate", () => this.tick());
    this.media.addEventListener("pause", () => this.note({ now: true }));
    this.media.addEventListener("ended", () => {
      this.note({ now: true, completed: true });
      if (this.next) location.replace(playLink(this.next.path));
    });
    const subtitles = subtitleChoices(info);
    const off = { value: "", label: TEXT.off, subtitle: null };
    this.controls.fit({
      media: this.media,
      title: info.tags?.title,
      chapters: info.chapters ?? [],
      duration: info.probe.durationSeconds,
      menus: [
        menu(TEXT.sound, audioChoices(info), ({ value }) => this.change({ audio: value })),
        picture && menu(TEXT.subtitles, [off, ...subtitles], ({ subtitle }) => this.subtitle(subtitle)),
        picture && menu(TEXT.size, sizeChoices(info), ({ value }) => this.change({ resolution: value })),
        menu(TEXT.speed, rateChoices(), ({ value }) => {
          this.media.defaultPlaybackRate = value;
          this.media.playbackRate = value;
        }),
      ],
    });
    const forced = subtitles.find(({ chosen }) => chosen);
    if (picture && forced) this.subtitle(forced.subtitle);
  }

  /** Starts playing at `position`, in place of what plays now. */
  async begin(position) {
    const mine = ++this.turn;
    this.letGo();
    this.letGo = () => {};
    this.controls.say(null);
    this.controls.wait(true);
    this.controls.why(TEXT.preparing);
    await this.end(); // Its work must be free before more is asked for.
    if (mine !== this.turn) return;
    const { audio, burn, resolution, force } = this.wish;
    try {
      const answer = await api.start({
        mediaPath: this.path,
        startPositionSeconds: position,
        profile: { resolution, abr: this.changes() },
        deviceProfile: deviceProfile(),
        forceTranscode: force,
        ...(audio !== null && { audioStreamIndex: audio }),
        ...(burn !== null && { subtitleStreamIndex: burn, subtitleMode: "burn" }),
      }, (error) => this.controls.why(error ? waiting(error) : TEXT.preparing), this.abort.signal);
      if (mine !== this.turn) {
        if (answer.sessionId) api.stop(answer);
        return;
      }
      this.session = answer.sessionId ? answer : null;
      this.answer = answer;
      const why = answer.playbackMode === "direct" ? TEXT.direct : describe(answer.decision);
      this.controls.why(why);
      const so = (seconds) => this.controls.why(`${why} ${TEXT.preparingSince(seconds)}`);
      if (answer.sessionId) await since(so, api.playable(answer.signedPlaylistUrl, this.abort.signal));
      this.controls.why(why);
      if (mine !== this.turn) return;
      const letGo = await attach(this.media, answer, position, (failure) => this.recover(failure));
      if (mine !== this.turn) letGo();
      else this.letGo = letGo;
      await this.media.play().catch(() => {}); // A browser may want a press on the button first.
    } catch (error) {
      if (mine === this.turn) this.fail(error);
    }
  }

  /**
   * Whether the size may change with the line: where the picture must be made anyway and nobody chose one. What plays as
   * it is, or is kept, stays as it is.
   */
  changes() {
    const { burn, resolution } = this.wish;
    const { directPlay, canCopyVideo } = this.info.playback;
    return this.kind === "video" && resolution === "original" && (burn !== null || !directPlay && !canCopyVideo);
  }

  /** What follows in the folder: of the same kind, in its order. */
  async follow() {
    const page = await api.browse(folderOf(this.path)).catch(() => null);
    const files = page?.entries.filter(({ mediaKind }) => mediaKind === this.kind) ?? [];
    const here = files.findIndex(({ path }) => path === this.path);
    this.next = here >= 0 ? files[here + 1] : null;
    if (this.next) {
      const { path, name } = this.next;
      this.controls.extra.replaceChildren(h("button", { type: "button", title: TEXT.next(stem(name)), onclick: () => location.replace(playLink(path)) }, TEXT.following));
    }
  }

  tick() {
    this.note();
    const { currentTime, duration } = this.media;
    const chapter = this.info.chapters?.find(({ startSeconds, endSeconds }) => startSeconds <= currentTime && currentTime < endSeconds - 1);
    const skip = chapter?.title && SKIPPED.test(chapter.title) ? chapter : null;
    const offer = this.next && duration > 2 * OFFER && duration - currentTime < OFFER ? this.next : null;
    if (offer) {
      const left = Math.ceil(duration - currentTime);
      this.controls.offer(`${TEXT.next(stem(offer.name))}, ${TEXT.inSeconds(left)}`, () => location.replace(playLink(offer.path)), "next");
    } else if (skip) this.controls.offer(TEXT.skip(skip.title), () => this.seek(skip.endSeconds), "skip");
    else this.controls.offer(null);
  }

  /** Tells the server how far this is: every ten seconds, and at once where it may be the last word. */
  note({ now = false, completed = false, leaving = false } = {}) {
    const { currentTime, duration, seeking, readyState } = this.media;
    const at = performance.now();
    if (!api.signedIn() || seeking || readyState < 2 || currentTime <= 0 || !(duration > 0)) return;
    if (!now && at - this.noted < NOTED_EVERY_MS) return;
    // Nothing new: what another device has noted since must not be put back.
    if (!completed && Math.abs(currentTime - this.told) < 0.5) return;
    [this.noted, this.told] = [at, currentTime];
    const known = Number.isFinite(duration) ? { durationSeconds: duration } : {};
    const how = { mediaPath: this.path, mediaType: this.kind, positionSeconds: currentTime, completed, player: "web", ...known };
    api.saveProgress(how, leaving).catch(() => {}); // Nobody watches to hear that it was not noted.
  }

  change(wish) {
    Object.assign(this.wish, wish);
    this.begin(this.place());
  }

  /** Where to begin again: nothing begins at the very end. */
  place() {
    const end = this.info.probe.durationSeconds ?? Infinity;
    return Math.max(0, Math.min(this.media.currentTime, end - 1));
  }

  seek(position) {
    if (!this.media) return;
    this.media.currentTime = Math.max(0, Math.min(position, (this.media.duration || Infinity) - 0.2));
    this.media.play().catch(() => {});
  }

  /** Text is shown by the page at once; pictures are drawn in by the server, so playback starts over. */
  subtitle(subtitle) {
    const burn = subtitle && subtitle.kind !== "text" ? subtitle.streamIndex : null;
    showSubtitle(this.media, burn === null ? subtitle : null, this.info.attachments, this.abort.signal).catch((error) => this.fail(error));
    if (burn !== this.wish.burn) this.change({ burn });
  }

  /** What plays has failed: tries the next best thing, then says what is wrong. */
  async recover({ kind, detail }) {
    const position = this.place();
    if (kind === "unsupported" && !this.session && !this.wish.force) {
      this.wish.force = true;
      this.begin(position);
    } else if (kind === "ended" && performance.now() - this.revived > 10_000) {
      this.revived = performance.now();
      this.begin(position);
    } else {
      const status = this.session && (await api.status(this.session).catch((error) => ({ error })));
      this.fail(status?.error ?? new Error(`Playback failed (${detail ?? kind}).`));
    }
  }

  /** What plays, in figures. */
  async stats() {
    const { media, session, answer, info } = this;
    if (!media) return [];
    const frames = media.getVideoPlaybackQuality?.();
    const ahead = [...Array(media.buffered.length).keys()].map((n) => media.buffered.end(n)).find((end) => end >= media.currentTime);
    const status = session && (await api.status(session).catch(() => null));
    const work = status?.diagnostics;
    return [
      ["Mode", answer?.playbackMode],
      ["Picture", media.videoWidth > 0 && `${media.videoWidth}×${media.videoHeight}`],
      ["File", [info.probe.container, ...info.streams.map(({ codec }) => codec)].join(", ")],
      ["Buffered", ahead !== undefined && `${Math.round(ahead - media.currentTime)} s`],
      ["Frames dropped", frames && `${frames.droppedVideoFrames} of ${frames.totalVideoFrames}`],
      ["Encoder", work?.encoder],
      ["Speed of converting", work?.speed && `${work.speed.toFixed(1)}×`],
    ];
  }

  fail(error) {
    if (error.name === "AbortError") return;
    this.controls.wait(false);
    this.controls.say(explain(error));
  }

  key(name) {
    return this.controls.key(name);
  }

  end(how) {
    const session = this.session;
    this.session = null;
    return session && api.stop(session, how);
  }

  close(how) {
    this.turn += 1;
    this.abort.abort();
    this.controls.close();
    if (this.media) this.note({ now: true, completed: this.media.ended, leaving: how?.leaving });
    this.letGo(); // First, so that nothing is asked of a session that has ended.
    this.end(how);
  }
}
