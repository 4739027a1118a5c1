// The groups of choices for how subtitles look, and their delay.

import { ChoiceGroup } from "./choices.js";
import { h } from "./dom.js";
import { getPreferences } from "./preferences.js";
import { TEXT } from "./strings.js";

const DELAY_STEP_SECONDS = 0.5;
const MAX_DELAY_SECONDS = 30;

/** Elements for the panel of audio and subtitles. @param {import("./subtitle-view.js").SubtitleView} view */
export function subtitleLookGroups(view) {
  const group = (label, name, labels) => {
    const choices = Object.entries(labels).map(([value, text]) => ({ value, label: text, chosen: value === getPreferences().look[name] }));
    return new ChoiceGroup(label, choices, ({ value }) => view.setLook({ [name]: value })).element;
  };
  return [h("details", { class: "look" }, h("summary", {}, TEXT.subtitleLook),
    group(TEXT.subtitleSize, "size", TEXT.sizes),
    group(TEXT.subtitlePosition, "position", TEXT.positions),
    group(TEXT.subtitleBackground, "background", TEXT.backgrounds),
    delayStepper(view))];
}

function delayStepper(view) {
  const value = h("output", {}, TEXT.delaySeconds(view.delay));
  const step = (seconds) => () => {
    view.setDelay(Math.max(-MAX_DELAY_SECONDS, Math.min(MAX_DELAY_SECONDS, view.delay + seconds)));
    value.textContent = TEXT.delaySeconds(view.delay);
  };
  return h("div", { class: "choice-group", role: "group", "aria-label": TEXT.subtitleDelay },
    h("p", { class: "group-title", "aria-hidden": "true" }, TEXT.subtitleDelay),
    h("div", { class: "choice-list" },
      h("button", { type: "button", class: "choice", onclick: step(-DELAY_STEP_SECONDS) }, TEXT.earlier), value,
      h("button", { type: "button", class: "choice", onclick: step(DELAY_STEP_SECONDS) }, TEXT.later)));
}
