// Draws the cues of the text tracks that are `hidden`, with the viewer's size, position, background and delay. The browser's own
// rendering cannot move a cue that is on the screen (Chromium), so the controls would cover it.

import { h } from "./dom.js";
import { getPreferences, setPreferences } from "./preferences.js";

/** How often cues are looked up, ms. */
const POLL_MS = 100;

export class SubtitleView {
  constructor() {
    this.element = h("div", { class: "subtitles" });
    this.delay = 0; // Seconds; positive is later.
    this.shown = [];
    this.media = null;
    this.applyLook();
    this.timer = setInterval(() => this.update(), POLL_MS);
  }

  /** @param {HTMLMediaElement} media */
  setMedia(media) {
    this.media = media;
    // Outside the page only the browser can draw them.
    for (const [event, mode] of [["webkitbeginfullscreen", "showing"], ["enterpictureinpicture", "showing"],
      ["webkitendfullscreen", "hidden"], ["leavepictureinpicture", "hidden"]]) {
      media.addEventListener(event, () => {
        for (const track of media.textTracks) if (track.mode !== "disabled") track.mode = /** @type {TextTrackMode} */ (mode);
      });
    }
  }

  setDelay(seconds) {
    this.delay = seconds;
    this.update();
  }

  /** @param {Partial<import("./preferences.js").SubtitleLook>} changes */
  setLook(changes) {
    setPreferences({ look: { ...getPreferences().look, ...changes } });
    this.applyLook();
  }

  applyLook() {
    Object.assign(this.element.dataset, getPreferences().look);
  }

  update() {
    const cues = this.media ? [...activeCues(this.media, this.media.currentTime - this.delay)] : [];
    if (cues.length === this.shown.length && cues.every((cue, n) => cue === this.shown[n])) return;
    this.shown = cues;
    this.element.replaceChildren(...cues.map((cue) => h("p", { class: isAtTop(cue) ? "cue at-top" : "cue" }, h("span", {}, cue.getCueAsHTML()))));
  }

  close() {
    clearInterval(this.timer);
  }
}

function* activeCues(media, time) {
  for (const track of media.textTracks) {
    if (track.mode !== "hidden") continue;
    for (const cue of track.cues ?? []) if (cue.startTime <= time && time < cue.endTime) yield cue;
  }
}

/** Whether a cue states a line in the upper half. */
const isAtTop = ({ line, snapToLines }) => typeof line === "number" && (snapToLines ? line >= 0 && line < 6 : line < 50);
