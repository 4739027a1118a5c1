// ASS subtitles with all their styling: drawn over the picture by libass, in a worker, loaded when one is chosen.

import { at } from "./api.js";

const WORKER = at("/web/vendor/ass.worker.js"); // It looks for its program beside it: /web/vendor/subtitles-octopus-worker.wasm
const FONT = at("/web/vendor/ass.woff2");

let loading = null;

/** The library's one script, which is no module. */
function library() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = at("/web/vendor/ass.js");
    script.onload = () => resolve(window.SubtitlesOctopus);
    script.onerror = () => reject(new Error("what draws subtitles cannot be loaded"));
    document.head.append(script);
  });
  return loading;
}

/**
 * Draws `words` over `media`, with the fonts at these addresses, until the function it gives is called. `ready()` is called
 * when it draws; where this browser cannot do it, it never is.
 */
export async function drawStyled(media, words, fonts, ready) {
  const Drawing = await library();
  let ended = false;
  // It tries whether a program may be compiled in the page, which the page's policy forbids: only in the worker it may.
  const { WebAssembly: hidden } = globalThis;
  globalThis.WebAssembly = undefined;
  try {
    const drawing = new Drawing({
      video: media, subContent: words, workerUrl: WORKER, legacyWorkerUrl: WORKER, fallbackFont: FONT, fonts,
      onReady: () => !ended && ready(),
      onError: () => { ended = true; },
    });
    return () => {
      if (!ended) drawing.dispose();
      ended = true;
    };
  } finally {
    globalThis.WebAssembly = hidden;
  }
}
