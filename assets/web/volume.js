// Mute button and volume slider. The volume is remembered.

import { h, icon, iconButton } from "./dom.js";
import { getPreferences, setPreferences } from "./preferences.js";
import { TEXT } from "./strings.js";

const STEP = 0.05;

export class Volume {
  /** @param {(text: string) => void} announce shows a change that was not made with the slider */
  constructor(announce) {
    this.announce = announce;
    this.media = null;
    this.button = iconButton("volume", TEXT.mute, () => this.toggleMute(), { "data-key": "mute" });
    this.slider = h("input", { type: "range", class: "volume-slider", min: 0, max: 100, step: 5, "aria-label": TEXT.volume, "data-key": "volume", oninput: () => this.set(this.slider.value / 100) });
    this.element = h("div", { class: "volume" }, this.button, this.slider);
    this.show();
  }

  /** Applies the remembered volume to a media element. @param {HTMLMediaElement} media */
  setMedia(media) {
    this.media = media;
    const { volume, isMuted } = getPreferences();
    media.volume = volume;
    media.muted = isMuted;
  }

  set(volume) {
    this.change({ volume: Math.round(100 * Math.min(1, Math.max(0, volume))) / 100, isMuted: volume <= 0 });
  }

  /** Makes it louder or quieter by a number of steps. */
  step(steps) {
    const { volume, isMuted } = getPreferences();
    this.set((isMuted ? 0 : volume) + steps * STEP);
    this.announceVolume();
  }

  toggleMute() {
    const { volume, isMuted } = getPreferences();
    this.change({ isMuted: !isMuted, volume: isMuted && volume === 0 ? 0.5 : volume });
    this.announceVolume();
  }

  change(changes) {
    setPreferences(changes);
    if (this.media) this.setMedia(this.media);
    this.show();
  }

  announceVolume() {
    const { volume, isMuted } = getPreferences();
    this.announce(isMuted ? TEXT.muted : TEXT.volumePercent(Math.round(100 * volume)));
  }

  show() {
    const { volume, isMuted } = getPreferences();
    const level = isMuted ? 0 : volume;
    this.slider.value = String(Math.round(100 * level));
    this.slider.style.setProperty("--level", `${100 * level}%`);
    this.button.replaceChildren(icon(level === 0 ? "muted" : level < 0.5 ? "quiet" : "volume"));
    this.button.setAttribute("aria-label", isMuted ? TEXT.unmute : TEXT.mute);
    this.button.title = isMuted ? TEXT.unmute : TEXT.mute;
  }
}
