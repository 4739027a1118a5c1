// What the guide shows: channels and programmes by words, category and favourites; and the tint of a category.

import { isFavourite } from "./account-preferences.js";

/**
 * @typedef {object} Filter
 * @property {string} words  folded, see `fold`
 * @property {string} category  empty for all
 * @property {boolean} onlyFavourites
 * @property {Set<number>} found  channels whose guide has the words, as the server found them
 */

/** The hues of usual categories, in the languages of guides. Others have one by their name. @type {Array<[RegExp, number]>} */
const HUES = [
  [/film|movie|cine|spielfilm/i, 18], [/comed|humou?r|sitcom|komödie/i, 42], [/docu|doku|nature|natur|science|history|geschichte/i, 165],
  [/sport|football|fu(ß|ss)ball|soccer/i, 130], [/news|nachricht|noticia|current|politic/i, 225], [/child|kid|kinder|cartoon|animat|famil/i, 325],
  [/music|musik|música|concert/i, 285], [/serie|drama|soap|krimi|crime/i, 205], [/horror|thriller/i, 350],
];

/** Text without case and diacritics. */
export const fold = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase().trim();

/** The categories of a programme. */
export const categoriesOf = (entry) => entry?.categories ?? [];

/** The hue of a programme's first category; null without one. */
export function hueOf(entry) {
  const [category] = categoriesOf(entry);
  if (!category) return null;
  const known = HUES.find(([pattern]) => pattern.test(category));
  if (known) return known[1];
  let sum = 7;
  for (const letter of category) sum = (sum * 31 + letter.codePointAt(0)) % 3600;
  return sum % 360;
}

/** The categories of channels and of what is on them, by name. */
export function categoriesOfAll(channels) {
  const all = channels.flatMap(({ category, now, next }) => [category, ...categoriesOf(now), ...categoriesOf(next)]);
  return [...new Set(all.filter(Boolean))].sort((a, b) => a.localeCompare(b)).slice(0, 100);
}

/** Whether a programme has the words and the category. */
export const matchesProgramme = (entry, { words, category }) =>
  (!category || categoriesOf(entry).includes(category))
  && (!words || fold([entry.title, entry.subtitle, entry.seriesTitle].filter(Boolean).join(" ")).includes(words));

/** Whether all of a channel is meant: its own name or category. */
export const matchesChannel = ({ name, number, category: own }, { words, category }) =>
  (!category || own === category) && (!words || String(number) === words || fold(name).includes(words));

/** Whether a channel is listed: it matches itself, or what is on it does. */
export function isListed(channel, filter) {
  if (filter.onlyFavourites && !isFavourite(channel.id)) return false;
  if (!filter.words && !filter.category) return true;
  if (matchesChannel(channel, filter)) return true;
  if (filter.found.has(channel.id) && !filter.category) return true;
  return [channel.now, channel.next].some((entry) => entry && matchesProgramme(entry, filter));
}

/** Whether a programme is dimmed because something else is looked for. */
export const isDimmed = (channel, entry, filter) =>
  Boolean(filter.words || filter.category) && !matchesChannel(channel, filter) && !(entry.parts ?? [entry]).some((part) => matchesProgramme(part, filter));
