// The texts of the page in the language of its user, from a table in `language`, and the messages for the server's errors.

import { getPreferences } from "./preferences.js";

/** Languages with a table. */
export const LANGUAGES = ["en", "de", "es"];

/** What the browser prefers, the best first. */
const BROWSER_LANGUAGES = globalThis.navigator?.languages ?? [];

/** The primary language of a tag: `de` of `de-CH`. */
const primaryOf = (tag) => tag.split("-")[0].toLowerCase();

/** The first of the tags that has a table, otherwise English. */
export const pickLanguage = (tags) => tags.filter(Boolean).map(primaryOf).find((tag) => LANGUAGES.includes(tag)) ?? "en";

/** The chosen language, otherwise the browser's. */
export const LANGUAGE = pickLanguage([getPreferences().language, ...BROWSER_LANGUAGES]);

/** The locale of dates and numbers: the browser's region where it has the language. */
export const LOCALE = BROWSER_LANGUAGES.find((tag) => primaryOf(tag) === LANGUAGE) ?? LANGUAGE;

globalThis.document?.documentElement.setAttribute("lang", LANGUAGE);

/** The parts of a table, by the end of their names. The second one has the messages too. */
const PARTS = ["", "-settings", "-television"];

// Modules that import this one run once the table is loaded.
const tables = await Promise.all(PARTS.map((part) => import(`./language/${LANGUAGE}${part}.js`)));
const [, settings] = tables;

/** @type {typeof import("./language/en.js").TEXT & typeof import("./language/en-settings.js").TEXT} */
export const TEXT = Object.assign({}, ...tables.map((table) => table.TEXT));

/** What a browser may not support; completes `TEXT.unsupported`. @type {Record<string, string>} */
export const UNSUPPORTED = settings.UNSUPPORTED;

/** Other reasons of a play decision. @type {Record<string, string>} */
export const REASONS = settings.REASONS;

/** The label of a session's, channel's or pipeline's state. */
export const stateLabel = (state) => settings.STATES[state] ?? state;

/** Conflicts, by what the server's sentence contains. @type {Array<[RegExp, string]>} */
const CONFLICTS = [
  [/^number (\d+) is used by (.+)$/, "numberUsed"],
  [/already in use/, "nameUsed"],
  [/no folder for recordings/, "recordingOff"],
  [/not onDemand/, "notOnDemand"],
  [/not started yet/, "notStarted"],
  [/last admin/, "lastAdmin"],
  [/admin of the configuration/, "declaredAdmin"],
  [/already set up/, "setUp"],
  [/was uploaded/, "uploaded"],
  [/in the library already/, "folderKnown"],
  [/limit|most allowed/, "limit"],
];

/** Why an entry of an imported list is skipped, by what the server's sentence contains. @type {Array<[RegExp, string]>} */
const SKIPS = [[/no address/, "noAddress"], [/not selected/, "notSelected"], [/only the first/, "tooMany"], [/(?:)/, "unusable"]];

const CONFLICT_TEXTS = { ...settings.CONFLICTS, recordingOff: TEXT.recordingOff };
const ERRORS = { ...settings.ERRORS, UNAUTHORIZED: TEXT.signedOut, TOKEN_EXPIRED: TEXT.signedOut, OFFLINE: TEXT.offline };

/** An error with a sentence of the page. */
export const pageError = (text) => Object.assign(new Error(text), { text });

/** An error of a field, as the server reports one. */
export const fieldError = (field) => Object.assign(new Error(field), { details: { fields: [{ field }] } });

/**
 * The message for an error: that of a `pageError`, otherwise the page's own sentence for the server's code and field. The server's
 * sentence is never shown.
 * @param {{ text?: string, code?: string, message?: string, details?: any }} error
 */
export function errorText({ text, code, message, details }) {
  if (text) return text;
  if (code === "CONFLICT") {
    for (const [pattern, name] of CONFLICTS) {
      const match = pattern.exec(message ?? "");
      if (match) return match.length > 1 ? CONFLICT_TEXTS[name](...match.slice(1)) : CONFLICT_TEXTS[name];
    }
  }
  const field = details?.fields?.[0]?.field;
  return settings.FIELDS[field?.split(/[.[]/)[0]] ?? ERRORS[code] ?? TEXT.unknownError;
}

/** Why an entry of an imported list is skipped. */
export const skipText = (reason) => settings.SKIPS[SKIPS.find(([pattern]) => pattern.test(reason))[1]];

/** The message while a request is retried because of a temporary error. */
export function waitText({ code, details }) {
  if (code === "CHANNEL_UNAVAILABLE") return TEXT.tuningIn;
  return details?.max ? TEXT.slotsInUse : TEXT.busy;
}
