// Addresses of the page's screens, and names from paths.

const link = (screen, query) => `#/${screen}?${new URLSearchParams(query)}`;

/** The library, or one kind of it: `film`, `series`, `music`, `artist`, `audiobook`, `homeVideo`; `query` has the order and filters. */
export const libraryLink = (kind, query) => (kind ? link("library", { kind, ...query }) : "#/library");
/** A folder, or the roots. */
export const folderLink = (path) => (path ? link("library", { path }) : libraryLink("folders"));
/** The albums of an artist. */
export const artistLink = (artist) => link("library", { artist });
/** What a person took part in. */
export const personLink = (person) => link("library", { person });
export const itemLink = (id) => link("item", { id });
export const seriesLink = (id) => link("series", { id });
/** The album whose files are in `folder` or below it. */
export const albumLink = (folder, album) => link("album", { folder, ...(album && { album }) });
export const searchLink = (words) => (words ? link("search", { q: words }) : "#/search");
export const fileLink = (path) => link("file", { path });
/** Plays a file; `tracks` has the chosen `audio` (stream index) and `subtitles` (id, or "off"). */
export const playLink = (path, at, tracks) => link("play", { path, ...(at !== undefined && { at }), ...tracks });
export const bookLink = (path) => link("book", { path });
/** The recordings, or one tab of them: `scheduled` or `series`. */
export const recordingsLink = (tab) => (tab && tab !== "recorded" ? link("recordings", { tab }) : "#/recordings");
export const watchLink = (channel) => link("watch", { channel });

export const nameOf = (path) => path.split("/").filter(Boolean).at(-1) ?? path;
export const folderOf = (path) => path.split("/").slice(0, -1).join("/");

/** A file name without its extension, as a title. */
export const stem = (name) => name.replace(/\.[A-Za-z0-9]{1,5}$/, "");

/** Whether a file is an audiobook by its extension. */
export const isAudiobook = (path) => /\.m4b$/i.test(path);

/** Opens a media file in its player: an audiobook has its own, which keeps its own position. */
export const openLink = (path) => (isAudiobook(path) ? bookLink(path) : playLink(path));
