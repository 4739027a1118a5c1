// Formatters of times, sizes and languages, and how long waits are reported.

import { LOCALE, TEXT } from "./strings.js";

/** Shorter waits are not reported, seconds. */
const REPORT_AFTER_SECONDS = 3;

/** Awaits `work` and returns its result; calls `onDelay(seconds)` every second once it takes long. */
export async function reportDelay(onDelay, work) {
  const began = performance.now();
  const timer = setInterval(() => {
    const seconds = Math.round((performance.now() - began) / 1000);
    if (seconds >= REPORT_AFTER_SECONDS) onDelay(seconds);
  }, 1000);
  try {
    return await work;
  } finally {
    clearInterval(timer);
  }
}

/** The name of a language, or the tag itself if it has none. */
export function languageName(tag) {
  if (!tag || tag === "und") return null;
  try {
    return new Intl.DisplayNames([LOCALE], { type: "language" }).of(tag) ?? tag;
  } catch {
    return tag;
  }
}

/** 75 -> "1:15", 3675 -> "1:01:15". */
export function formatClock(seconds) {
  const totalSeconds = Math.max(0, Math.round(seconds));
  const padded = (n) => String(n).padStart(2, "0");
  const [hours, minutes] = [Math.floor(totalSeconds / 3600), Math.floor((totalSeconds % 3600) / 60)];
  return hours ? `${hours}:${padded(minutes)}:${padded(totalSeconds % 60)}` : `${minutes}:${padded(totalSeconds % 60)}`;
}

/** 5400 -> "1 h 30 min", 18 -> "18 s" in English; at least 1 s. */
export function formatLength(seconds) {
  if (seconds < 59.5) return TEXT.seconds(Math.max(1, Math.round(seconds)));
  const minutes = Math.max(1, Math.round(seconds / 60));
  const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
  return [hours && TEXT.hours(hours), (rest || !hours) && TEXT.shortMinutes(rest)].filter(Boolean).join(" ");
}

/** A formatter of instants, created on first use and kept: creating it is most of the work of a guide. */
function dateFormatter(options) {
  let format = null;
  return (instant) => (format ??= new Intl.DateTimeFormat(LOCALE, options)).format(new Date(instant));
}

/** The time of day of an instant. */
export const formatTime = dateFormatter({ hour: "numeric", minute: "2-digit" });

/** The weekday and date of an instant. */
export const formatDay = dateFormatter({ weekday: "short", day: "numeric", month: "short" });

/** A date such as 2024-03-09 with its year. It has no time zone. */
export const formatDate = dateFormatter({ day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });

/** The day and time of an instant; empty for null. */
export const formatMoment = (instant) => (instant ? `${formatDay(instant)}, ${formatTime(instant)}` : "");

/** The time of day of an instant, with seconds. */
export const formatExactTime = dateFormatter({ timeStyle: "medium" });

/** 1536000 -> "1.5 MB" in English. */
export function formatSize(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  for (; bytes >= 1000 && unit < units.length - 1; unit += 1) bytes /= 1000;
  const digits = bytes < 10 && unit > 0 ? 1 : 0;
  return `${bytes.toLocaleString(LOCALE, { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${units[unit]}`;
}
