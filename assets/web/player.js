// One item on screen: asks how it can be played, plays it, and starts over at the same moment when a choice changes.

import * as api from "./api.js";
import { folderLink, stem } from "./browse.js";
import { h, icon } from "./dom.js";
import { deviceProfile } from "./profile.js";
import { attach } from "./source.js";
import { TEXT, clock, describe, explain } from "./strings.js";
import { audioChoices, menu, showSubtitle, sizeChoices, subtitleChoices } from "./tracks.js";

/** Plays the file at `path` in `stage`. Returns what must be called when the view goes. */
export function play(stage, path) {
  const player = new Player(stage, path);
  player.open();
  return (how) => player.close(how);
}

class Player {
  constructor(stage, path) {
    this.path = path;
    this.abort = new AbortController();
    this.wish = { audio: null, burn: null, resolution: "original", force: false };
    this.turn = 0;
    this.revived = 0;
    this.noted = -Infinity;
    this.session = null;
    this.letGo = () => {};
    this.title = h("h1", {}, stem(path.split("/").at(-1)));
    this.frame = h("div", { class: "frame" }, h("p", { class: "quiet loading" }, TEXT.preparing));
    this.why = h("p", { class: "quiet why", role: "status" });
    this.notice = h("p", { class: "notice", role: "alert", hidden: true });
    this.menus = h("div", { class: "menus" });
    this.chapters = h("ol", { class: "chapters" });
    const up = folderLink(path.split("/").slice(0, -1).join("/"));
    stage.append(
      h("div", { class: "heading" }, h("a", { class: "back", href: up, "aria-label": "Back to the folder" }, icon("back")), this.title),
      this.frame, this.notice, this.menus, this.why, this.chapters);
    document.title = `${this.title.textContent} – Hearthcast`;
    this.onkey = (event) => this.key(event);
    document.addEventListener("keydown", this.onkey);
  }

  async open() {
    try {
      const info = await api.info(this.path, this.abort.signal);
      if (info.tags?.title) this.title.textContent = info.tags.title;
      this.show(info);
      await this.begin(info.watchProgress?.resumePositionSeconds ?? 0);
    } catch (error) {
      this.fail(error);
    }
  }

  /** The element and the choices that fit the item. */
  show(info) {
    const picture = info.tracks.video.length > 0;
    this.media = h(picture ? "video" : "audio", { controls: true, playsinline: true, preload: "auto" });
    this.media.addEventListener("waiting", () => this.frame.classList.add("waiting"));
    for (const name of ["playing", "pause", "error"]) {
      this.media.addEventListener(name, () => this.frame.classList.remove("waiting"));
    }
    this.media.addEventListener("timeupdate", () => this.note());
    this.media.addEventListener("pause", () => this.note({ now: true }));
    this.media.addEventListener("ended", () => this.note({ now: true, completed: true }));
    this.kind = picture ? "video" : "audio";
    this.frame.classList.toggle("sound", !picture);
    this.frame.replaceChildren(...(picture ? [this.media] : [h("img", { src: "/web/logo.svg", alt: "" }), this.media]));

    const subtitles = subtitleChoices(info);
    const off = { value: "", label: TEXT.off, subtitle: null };
    this.menus.append(...[
      menu("Sound", audioChoices(info), ({ value }) => this.change({ audio: value })),
      picture && menu("Subtitles", [off, ...subtitles], ({ subtitle }) => this.subtitle(subtitle)),
      picture && menu("Size", sizeChoices(info), ({ value }) => this.change({ resolution: value })),
    ].filter(Boolean));
    const forced = subtitles.find(({ chosen }) => chosen);
    if (picture && forced) this.subtitle(forced.subtitle);

    this.chapters.append(...(info.chapters ?? []).map(({ title, startSeconds, index }) => h("li", {},
      h("button", { class: "chapter", onclick: () => this.seek(startSeconds) },
        h("span", {}, title ?? `Chapter ${index + 1}`), h("span", { class: "quiet" }, clock(startSeconds))))));
  }

  /** Starts playing at `position`, in place of what plays now. */
  async begin(position) {
    const mine = ++this.turn;
    this.letGo();
    this.letGo = () => {};
    this.notice.hidden = true;
    this.frame.classList.add("waiting");
    await this.end(); // Its work must be free before more is asked for.
    if (mine !== this.turn) return;
    const { audio, burn, resolution, force } = this.wish;
    try {
      const answer = await this.start({
        mediaPath: this.path,
        startPositionSeconds: position,
        profile: { resolution },
        deviceProfile: deviceProfile(),
        forceTranscode: force,
        ...(audio !== null && { audioStreamIndex: audio }),
        ...(burn !== null && { subtitleStreamIndex: burn, subtitleMode: "burn" }),
      });
      if (mine !== this.turn) {
        if (answer.sessionId) api.stop(answer);
        return;
      }
      this.session = answer.sessionId ? answer : null;
      this.why.textContent = answer.playbackMode === "direct" ? TEXT.direct : describe(answer.decision);
      if (answer.sessionId) await api.playable(answer.signedPlaylistUrl, this.abort.signal);
      if (mine !== this.turn) return;
      const letGo = await attach(this.media, answer, position, (failure) => this.recover(failure));
      if (mine !== this.turn) letGo();
      else this.letGo = letGo;
      await this.media.play().catch(() => {}); // A browser may want a press on the button first.
    } catch (error) {
      if (mine === this.turn) this.fail(error);
    }
  }

  /** Starts; while the converter is taken (often by what this page has just left) it asks again for a while. */
  async start(wish) {
    for (let tries = 1; ; tries += 1) {
      try {
        return await api.start(wish, this.abort.signal);
      } catch (error) {
        if (error.code !== "TRANSCODER_BUSY" || tries === 8) throw error;
        this.why.textContent = TEXT.busy;
        await new Promise((resolve) => setTimeout(resolve, 1000));
      }
    }
  }

  /** Tells the server how far this is: every ten seconds, and at once where it may be the last word. */
  note({ now = false, completed = false, leaving = false } = {}) {
    const { currentTime, duration, seeking, readyState } = this.media;
    const at = performance.now();
    if (!api.signedIn() || seeking || readyState < 2 || currentTime <= 0 || !(duration > 0)) return;
    if (!now && at - this.noted < 10_000) return;
    this.noted = at;
    const known = Number.isFinite(duration) ? { durationSeconds: duration } : {};
    const how = { mediaPath: this.path, mediaType: this.kind, positionSeconds: currentTime, completed, player: "web", ...known };
    api.saveProgress(how, leaving).catch(() => {}); // Nobody watches to hear that it was not noted.
  }

  change(wish) {
    Object.assign(this.wish, wish);
    this.begin(this.media.currentTime);
  }

  seek(position) {
    this.media.currentTime = position;
    this.media.play().catch(() => {});
  }

  /** Text is shown by the page at once; pictures are drawn in by the server, so playback starts over. */
  subtitle(subtitle) {
    const burn = subtitle && subtitle.kind !== "text" ? subtitle.streamIndex : null;
    showSubtitle(this.media, burn === null ? subtitle : null, this.abort.signal).catch((error) => this.fail(error));
    if (burn !== this.wish.burn) this.change({ burn });
  }

  /** What plays has failed: tries the next best thing, then says what is wrong. */
  async recover({ kind, detail }) {
    const position = this.media.currentTime;
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

  fail(error) {
    if (error.name === "AbortError") return;
    this.frame.classList.remove("waiting");
    if (!this.media) this.frame.replaceChildren();
    this.notice.textContent = explain(error);
    this.notice.hidden = false;
  }

  key(event) {
    if (!this.media || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.target.closest?.("input, select, button, a, video, audio")) return;
    const jump = (seconds) => { this.media.currentTime = Math.max(0, this.media.currentTime + seconds); };
    const act = {
      " ": () => (this.media.paused ? this.media.play().catch(() => {}) : this.media.pause()),
      ArrowLeft: () => jump(-10),
      ArrowRight: () => jump(10),
      f: () => (document.fullscreenElement ? document.exitFullscreen() : this.media.requestFullscreen?.()),
      m: () => { this.media.muted = !this.media.muted; },
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  end(how) {
    const session = this.session;
    this.session = null;
    return session && api.stop(session, how);
  }

  close(how) {
    this.turn += 1;
    this.abort.abort();
    document.removeEventListener("keydown", this.onkey);
    if (this.media) this.note({ now: true, completed: this.media.ended, leaving: how?.leaving });
    this.letGo(); // First, so that nothing is asked of a session that has ended.
    this.end(how);
  }
}
