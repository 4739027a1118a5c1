// What the page remembers on this device: its language and colours, volume, speed, quality, the look of subtitles; and a copy of what
// `account-preferences.js` keeps on the server: favourite channels, and languages, per series too.

const KEY = "hearthcast.player";

/** Series whose languages are kept; the least recently used one is dropped first. */
const MAX_SERIES = 200;

/**
 * @typedef {object} SubtitleLook
 * @property {"small" | "medium" | "large" | "huge"} size
 * @property {"bottom" | "raised" | "top"} position
 * @property {"none" | "shade" | "box"} background
 *
 * @typedef {object} Languages  `audio` is a language tag; `subtitle` is one, or "off". Null where nothing was chosen.
 * @property {string | null} audio
 * @property {string | null} subtitle
 */

const DEFAULTS = {
  /** @type {"system" | "dark" | "light"} */
  theme: "system",
  /** What is requested of the server: "original" or a resolution. */
  quality: "original",
  /** The language of the page; null is the browser's. @type {string | null} */
  language: null,
  volume: 1, // 0 to 1.
  isMuted: false,
  rate: 1,
  /** @type {SubtitleLook} */
  look: { size: "medium", position: "bottom", background: "shade" },
  /** @type {Languages} */
  languages: { audio: null, subtitle: null },
  /** @type {Record<string, Languages>} */
  series: {},
  /** Ids of channels. @type {number[]} */
  favourites: [],
  /** Changes that the server does not have yet, the oldest first. @type {object[]} */
  unsent: [],
  /** Whether `favourites` and languages have been the server's once. */
  isShared: false,
};

/** @type {typeof DEFAULTS} */
let preferences = load();

function load() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY)) ?? {};
    return { ...DEFAULTS, ...stored, look: { ...DEFAULTS.look, ...stored.look } };
  } catch {
    return { ...DEFAULTS }; // Storage may be switched off; the preferences then last as long as the page.
  }
}

export const getPreferences = () => preferences;

/** Changes some preferences. @param {Partial<typeof DEFAULTS>} changes */
export function setPreferences(changes) {
  preferences = { ...preferences, ...changes };
  try {
    localStorage.setItem(KEY, JSON.stringify(preferences));
  } catch {
    // As above.
  }
}

const SEASON = /^(season|series|staffel|temporada|saison|s)[ ._-]*\d+$/i;

/** Whether a folder's name is that of a season. */
export const isSeasonFolder = (folder) => SEASON.test(folder.split("/").at(-1));

/** The folder of the series that a file belongs to. */
export function seriesOf(path) {
  const folder = path.split("/").slice(0, -1).join("/");
  return isSeasonFolder(folder) ? folder.split("/").slice(0, -1).join("/") : folder;
}

/** The languages last chosen in the series of a file, otherwise those last chosen anywhere. @returns {Languages} */
export const getLanguages = (path) => ({ ...preferences.languages, ...preferences.series[seriesOf(path)] });

/** Remembers languages for a series, and for others. @param {string} key of `seriesOf` @param {Partial<Languages>} changes */
export function rememberLanguages(key, changes) {
  const { [key]: known, ...others } = preferences.series;
  const series = Object.fromEntries([...Object.entries(others).slice(1 - MAX_SERIES), [key, { ...known, ...changes }]]);
  setPreferences({ series, languages: { ...preferences.languages, ...changes } });
}
