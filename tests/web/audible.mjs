// Which tone is audible on the page, and whether playback is interrupted meanwhile.

import { waitUntil } from "./program.mjs";

/** A tone per language, Hz: which one is audible tells which track plays. */
export const TONES = { English: 440, German: 880 };

/** The frequency that is loudest in the audio of the page, Hz. */
const findTone = (page) => page.evaluate(() => {
  if (!window.analyser) {
    const context = new AudioContext();
    window.analyser = new AnalyserNode(context, { fftSize: 4096 });
    context.createMediaElementSource(document.querySelector("video")).connect(window.analyser).connect(context.destination);
  }
  const { analyser } = window;
  const loudness = new Float32Array(analyser.frequencyBinCount);
  analyser.getFloatFrequencyData(loudness);
  const loudest = loudness.indexOf(Math.max(...loudness));
  return loudest * analyser.context.sampleRate / analyser.fftSize;
});

export const waitForTone = (page, language) =>
  waitUntil(`the audio is ${language}`, async () => Math.abs((await findTone(page)) - TONES[language]) < 25);

/** The texts of the cues that are shown now. */
export const shownCues = (page) => page.locator(".subtitles .cue").allTextContents();

/** Does something; returns how often playback waited and how often it seeked meanwhile, and the largest error of its clock, seconds. */
export async function watchPlayback(page, work) {
  await page.evaluate(() => {
    const video = document.querySelector("video");
    window.watch = { waiting: 0, seeking: 0, longest: 0 };
    let last = [performance.now(), video.currentTime];
    window.count = ({ type }) => { window.watch[type] += 1; };
    for (const type of ["waiting", "seeking"]) video.addEventListener(type, window.count);
    window.watchTimer = setInterval(() => {
      const now = [performance.now(), video.currentTime];
      window.watch.longest = Math.max(window.watch.longest, Math.abs((now[0] - last[0]) / 1000 - (now[1] - last[1])));
      last = now;
    }, 100);
  });
  await work();
  return page.evaluate(() => {
    clearInterval(window.watchTimer);
    for (const type of ["waiting", "seeking"]) document.querySelector("video").removeEventListener(type, window.count);
    return window.watch;
  });
}
