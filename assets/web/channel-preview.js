// What a channel would play in its next 24 hours, while it is edited.

import { h } from "./dom.js";
import { formatDay, formatTime } from "./format.js";
import { TEXT, errorText } from "./strings.js";
import { nameOf } from "./links.js";

/** The preview follows the last change after this time, ms. */
const DELAY_MS = 600;

/** Programmes that are shown at first. */
const FIRST_SHOWN = 12;

export class ChannelPreview {
  /** @param {() => Promise<object> | null} load  the server's preview; null while the form is incomplete */
  constructor(load) {
    this.load = load;
    this.status = h("p", { class: "muted", role: "status" }, TEXT.previewWaits);
    this.list = h("ol", { class: "preview-list" });
    this.element = h("section", { class: "next-day", "aria-label": TEXT.previewTitle }, h("h2", {}, TEXT.previewTitle), this.status, this.list);
    this.generation = 0;
  }

  /** Loads the preview again, a while after the last call. */
  update() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), DELAY_MS);
  }

  async refresh() {
    this.generation += 1;
    const { generation } = this;
    const work = this.load();
    if (!work) {
      this.list.replaceChildren();
      this.status.textContent = TEXT.previewWaits;
      return;
    }
    this.element.setAttribute("aria-busy", "true");
    try {
      const { channel, entries } = await work;
      if (generation !== this.generation) return;
      this.status.textContent = [TEXT.previewCount(entries.length), channel.itemCount > 0 && TEXT.titles(channel.itemCount)].filter(Boolean).join(" · ");
      this.show(entries, FIRST_SHOWN);
    } catch (error) {
      if (generation !== this.generation) return;
      this.list.replaceChildren();
      this.status.textContent = messageOf(error);
    } finally {
      if (generation === this.generation) this.element.removeAttribute("aria-busy");
    }
  }

  show(entries, count) {
    let day = null;
    const rows = entries.slice(0, count).map(({ title, subtitle, season, episode, start, isFiller }) => {
      const isNewDay = day !== formatDay(start);
      day = formatDay(start);
      const part = season && episode ? TEXT.seasonEpisode(season, episode) : null;
      return [isNewDay && h("li", { class: "preview-day muted" }, day), h("li", { class: isFiller ? "filler" : "" },
        h("span", { class: "muted" }, formatTime(start)), h("span", {}, [title, part, subtitle].filter(Boolean).join(" · ")))];
    });
    this.list.replaceChildren(...rows.flat().filter(Boolean), ...(entries.length > count
      ? [h("li", {}, h("button", { type: "button", class: "plain", onclick: () => this.show(entries, entries.length) }, TEXT.more))] : []));
  }

  close() {
    clearTimeout(this.timer);
    this.generation += 1;
  }
}

/** An error with the items that caused it. */
export function messageOf(error) {
  const items = error.details?.items?.slice(0, 3).map(({ path }) => nameOf(path)).join(", ");
  return [errorText(error), items].filter(Boolean).join(" ");
}
