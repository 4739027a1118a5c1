// Styled ASS subtitles, rendered over the video by libass in a worker. Loaded when such a subtitle is chosen.

import { resolvePath } from "./api.js";

const WORKER_URL = resolvePath("/web/vendor/ass.worker.js"); // It loads /web/vendor/subtitles-octopus-worker.wasm from the same folder.
const FALLBACK_FONT_URL = resolvePath("/web/vendor/ass.woff2");

let loading = null;

/** Loads the classic script (not a module) that defines `SubtitlesOctopus`. */
function loadLibrary() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = resolvePath("/web/vendor/ass.js");
    script.onload = () => resolve(/** @type {any} */ (window).SubtitlesOctopus);
    script.onerror = () => reject(new Error("the subtitle renderer could not be loaded"));
    document.head.append(script);
  });
  return loading;
}

/**
 * Renders the ASS `text` over `media` with the fonts at `fonts`. Calls `onReady()` when rendering starts; never in a browser
 * that cannot render. Returns a function that stops it.
 */
export async function renderStyledSubtitles(media, text, fonts, onReady) {
  const Renderer = await loadLibrary();
  let isStopped = false;
  // The script tests whether it may compile WebAssembly in the page. The page's CSP forbids that; only the worker may.
  const { WebAssembly: pageWebAssembly } = globalThis;
  globalThis.WebAssembly = undefined;
  try {
    const renderer = new Renderer({
      video: media, subContent: text, workerUrl: WORKER_URL, legacyWorkerUrl: WORKER_URL, fallbackFont: FALLBACK_FONT_URL, fonts,
      onReady: () => !isStopped && onReady(),
      onError: () => { isStopped = true; },
    });
    return () => {
      if (!isStopped) renderer.dispose();
      isStopped = true;
    };
  } finally {
    globalThis.WebAssembly = pageWebAssembly;
  }
}
