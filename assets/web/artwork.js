// Artwork of the library: posters (2:3), stills (16:9) and covers (1:1) in boxes whose size never changes. Where there is no
// image, the box has the title on a quiet colour of its kind; a frame of the film becomes a poster with the title on it.

import { getItem, resolvePath } from "./api.js";
import { h, icon } from "./dom.js";
import { loadNearWindow } from "./image-queue.js";

/** Widths in which the server scales artwork, pixels. */
const WIDTHS = [160, 320, 480, 640, 960, 1280, 1920];

/** A broken image is loaded again after this time, ms. */
const RETRY_MS = 3000;

/** Width by height of each shape. */
export const RATIOS = { poster: 2 / 3, still: 16 / 9, square: 1 };

/** Width by height of artwork by its kind. */
const SOURCE_RATIOS = { poster: 2 / 3, thumbnail: 16 / 9, backdrop: 16 / 9 };

/** What each shape shows, the best first. */
const SOURCES = { poster: ["poster", "thumbnail", "backdrop"], still: ["thumbnail", "backdrop", "poster"], square: ["poster", "thumbnail"] };

/** The icon and the hue of each kind without artwork. */
const LOOKS = {
  film: ["video", 18], episode: ["video", 205], series: ["video", 205], music: ["audio", 285], album: ["audio", 285], audiobook: ["book", 40],
  homeVideo: ["video", 150], extra: ["video", 330], channel: ["tv", 225], folder: ["folder", 25],
};

/** The address of artwork at a width of `WIDTHS`. */
export const artworkUrl = (url, width) => `${resolvePath(url)}${url.includes("?") ? "&" : "?"}width=${width}`;

/** The address of an item's cover, as a player shows it; undefined without one. */
export const findCover = (id) => getItem(id).then(({ item }) => item.artwork?.poster && artworkUrl(item.artwork.poster, 640), () => undefined);

/**
 * An image of at most `maxWidth` pixels; `sizes` is its width on the screen, as in HTML. Unless `isEager`, it is loaded near the window.
 * @param {string} url
 * @param {{ sizes: string, maxWidth?: number, isEager?: boolean, fetchpriority?: string }} options
 */
export function artworkImage(url, { sizes, maxWidth = 640, isEager = false, ...attributes }) {
  const srcset = WIDTHS.filter((width) => width <= maxWidth).map((width) => `${artworkUrl(url, width)} ${width}w`).join(", ");
  const image = h("img", { alt: "", decoding: "async", sizes, srcset: isEager ? srcset : null, ...attributes });
  if (!isEager) loadNearWindow(image, srcset);
  return image;
}

/** A hue near that of the kind, which differs from title to title. */
function hueOf(kind, title) {
  let sum = 7;
  for (const letter of title) sum = (sum * 31 + letter.codePointAt(0)) % 3600;
  return (LOOKS[kind]?.[1] ?? 25) + (sum % 56) - 28;
}

/**
 * A box with artwork. `widthRem` is its width on the screen; `children` lie over it.
 * @param {{ shape: "poster" | "still" | "square", kind: string, title: string, artwork?: Record<string, string>, widthRem?: number, isEager?: boolean }} options
 */
export function artBox({ shape, kind, title, artwork, widthRem = 12, isEager = false }, ...children) {
  const source = SOURCES[shape].find((name) => artwork?.[name]);
  const isFrame = shape === "poster" && source && source !== "poster";
  const box = h("div", { class: ["art", shape, source && "has-image", isFrame && "is-frame"].filter(Boolean).join(" "), style: { "--hue": String(hueOf(kind, title)) } });
  if (source) {
    // A wider image is cut to the box, so it is drawn larger than that.
    const scale = Math.max(1, SOURCE_RATIOS[source] / RATIOS[shape]);
    const image = artworkImage(artwork[source], { sizes: `${Math.ceil(widthRem * scale)}rem`, isEager });
    replaceBroken(box, image);
    box.append(image);
  }
  box.append(h("span", { class: "art-mark" }, icon(LOOKS[kind]?.[0] ?? "video")), h("span", { class: "art-title", "aria-hidden": "true" }, title),
    ...children.filter(Boolean));
  return box;
}

/** Shows the title while an image cannot be loaded. It is tried once more, because the server may have been busy. */
function replaceBroken(box, image) {
  const classes = box.className;
  let hasFailed = false;
  image.addEventListener("error", () => {
    box.classList.remove("has-image", "is-frame");
    if (hasFailed) {
      image.remove();
      return;
    }
    hasFailed = true;
    setTimeout(() => loadNearWindow(image, image.srcset), RETRY_MS);
  });
  image.addEventListener("load", () => { box.className = classes; });
}

/**
 * The wide image behind the head of a screen, from a backdrop or a frame; a quiet colour without one.
 * @param {{ kind: string, title: string, artwork?: Record<string, string> }} options
 */
export function backdrop({ kind, title, artwork }) {
  const url = artwork?.backdrop ?? artwork?.thumbnail;
  const image = url && artworkImage(url, { sizes: "100vw", maxWidth: 1920, isEager: true, fetchpriority: "high" });
  image?.addEventListener("error", () => image.remove());
  return h("div", { class: "backdrop", style: { "--hue": String(hueOf(kind, title)) } }, image);
}
