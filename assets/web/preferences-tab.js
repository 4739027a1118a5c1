// The tab of preferences: language and colours of the page, languages of audio and subtitles, quality. Changes apply at once.

import { setDefaultLanguages } from "./account-preferences.js";
import { h } from "./dom.js";
import { languageName } from "./format.js";
import { getPreferences, setPreferences } from "./preferences.js";
import { LANGUAGES, LOCALE, TEXT } from "./strings.js";
import { applyTheme } from "./theme.js";
import { field } from "./widgets.js";

/** Languages of audio and subtitles to choose from; the one that was last chosen in a player is added. */
const SPOKEN = ["ar", "cs", "da", "de", "el", "en", "es", "fi", "fr", "he", "hi", "hu", "it", "ja", "ko", "nb", "nl", "pl", "pt", "ru", "sv", "tr", "uk", "zh"];

/** The server's qualities below the original. */
const QUALITIES = ["1440p", "1080p", "720p", "480p", "360p", "240p"];

export function preferencesTab(container) {
  const { language, theme, languages, quality, look } = getPreferences();
  const setLanguage = (name) => (value) => setDefaultLanguages({ [name]: value || null });
  const setLook = (name) => (value) => setPreferences({ look: { ...getPreferences().look, [name]: value } });
  container.replaceChildren(
    h("p", { class: "muted" }, TEXT.preferencesWhy),
    group(TEXT.appearance,
      picker("language", TEXT.pageLanguage, [["", TEXT.automatic], ...LANGUAGES.map((tag) => [tag, ownName(tag)])], language ?? "", (value) => {
        setPreferences({ language: value || null });
        location.reload(); // All texts change.
      }),
      picker("theme", TEXT.theme, Object.entries(TEXT.themes), theme, (value) => {
        setPreferences({ theme: value });
        applyTheme();
      })),
    group(TEXT.playback,
      picker("audio", TEXT.audioLanguage, [["", TEXT.asInFile], ...spokenChoices(languages.audio)], languages.audio ?? "", setLanguage("audio")),
      picker("quality", TEXT.quality, [["original", TEXT.original], ...QUALITIES.map((name) => [name, name])], quality, (value) => setPreferences({ quality: value }))),
    group(TEXT.subtitles,
      picker("subtitles", TEXT.subtitleLanguage, [["", TEXT.asInFile], ["off", TEXT.off], ...spokenChoices(languages.subtitle)], languages.subtitle ?? "", setLanguage("subtitle")),
      picker("size", TEXT.subtitleSize, Object.entries(TEXT.sizes), look.size, setLook("size")),
      picker("position", TEXT.subtitlePosition, Object.entries(TEXT.positions), look.position, setLook("position")),
      picker("background", TEXT.subtitleBackground, Object.entries(TEXT.backgrounds), look.background, setLook("background"))));
}

const group = (title, ...fields) => h("section", { class: "preferences" }, h("h2", {}, title), h("div", { class: "fields" }, ...fields));

/** `choices` are `[value, label]` pairs. */
function picker(name, label, choices, chosen, choose) {
  const select = h("select", { name, onchange: () => choose(select.value) }, ...choices.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
  return field(label, select);
}

/** The name of a language in itself, for who cannot read the present one. */
const ownName = (tag) => {
  const name = new Intl.DisplayNames([tag], { type: "language" }).of(tag) ?? tag;
  return name[0].toLocaleUpperCase(tag) + name.slice(1);
};

function spokenChoices(chosen) {
  const isListed = !chosen || chosen === "off" || SPOKEN.includes(chosen);
  const choices = [...SPOKEN, ...(isListed ? [] : [chosen])].map((tag) => [tag, languageName(tag)]);
  return choices.sort(([, a], [, b]) => a.localeCompare(b, LOCALE));
}
