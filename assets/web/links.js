// Addresses of the page's screens, and names from paths.

const link = (screen, query) => `#/${screen}?${new URLSearchParams(query)}`;

export const libraryLink = (path) => (path ? link("library", { path }) : "#/library");
export const fileLink = (path) => link("file", { path });
export const playLink = (path, at) => link("play", { path, ...(at !== undefined && { at }) });
export const bookLink = (path) => link("book", { path });
export const watchLink = (channel) => link("watch", { channel });

export const nameOf = (path) => path.split("/").filter(Boolean).at(-1) ?? path;
export const folderOf = (path) => path.split("/").slice(0, -1).join("/");

/** A file name without its extension, as a title. */
export const stem = (name) => name.replace(/\.[A-Za-z0-9]{1,5}$/, "");

/** Whether a file is an audiobook by its extension. */
export const isAudiobook = (path) => /\.m4b$/i.test(path);
