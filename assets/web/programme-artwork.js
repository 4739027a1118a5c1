// Artwork of programmes: that of their items in the library.

import * as api from "./api.js";

/** Items whose artwork is kept; the oldest is dropped first. */
const MAX_ITEMS = 300;

/** Promises of artwork by the id of the item. */
const known = new Map();

/** The kind of a programme as `artBox` takes it. */
export const kindOf = (entry) => (entry.episode ? "episode" : entry.itemId ? "film" : "channel");

/** The addresses of a programme's artwork by kind; null without any. */
export function loadArtwork({ itemId: id }) {
  if (!id) return Promise.resolve(null);
  if (!known.has(id)) {
    if (known.size >= MAX_ITEMS) known.delete(known.keys().next().value);
    known.set(id, api.getItem(id).then(({ item }) => item.artwork, () => {
      known.delete(id); // Tried again with the next look.
      return null;
    }));
  }
  return known.get(id);
}
