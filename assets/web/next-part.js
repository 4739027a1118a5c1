// The file that follows another: the next episode, also of the next season, or the next track. Unrelated films do not follow each other.

import { folderOf, nameOf, stem } from "./links.js";
import { isSeasonFolder } from "./preferences.js";

const { compare } = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

/** Whether file `other` may be the next part after `name`: it sorts later, and both names have a number after the same words. */
export function isNextPart(name, other) {
  const words = (of) => /^\D*(?=\d)/.exec(stem(of))?.[0].toLowerCase();
  return compare(name, other) < 0 && words(name) !== undefined && words(name) === words(other);
}

/**
 * The path of the next part after `path` of the same kind; null without one. Tracks of a folder follow each other whatever
 * their names are.
 * @param {string} path
 * @param {"video" | "audio"} kind
 * @param {(path: string) => Promise<{ entries: Array<{ path: string, name: string, kind: string, mediaKind?: string }> }>} listFolder
 */
export async function findNextPart(path, kind, listFolder) {
  const folder = folderOf(path);
  const inFolder = await filesOf(folder, kind, listFolder);
  const position = inFolder.indexOf(path);
  const next = kind === "audio" ? inFolder[position + 1] : inFolder.find((other) => isNextPart(nameOf(path), nameOf(other)));
  if (next || position < 0 || !isSeasonFolder(folder)) return next ?? null;
  const { entries } = await listFolder(folderOf(folder));
  const seasons = entries.filter((entry) => entry.kind === "folder" && isSeasonFolder(entry.path)).map((entry) => entry.path).sort(compare);
  const season = seasons[seasons.indexOf(folder) + 1];
  return season ? (await filesOf(season, kind, listFolder))[0] ?? null : null;
}

async function filesOf(folder, kind, listFolder) {
  const { entries } = await listFolder(folder);
  return entries.filter(({ mediaKind }) => mediaKind === kind).map(({ path }) => path).sort(compare);
}
