// How busy the server was in the last half hour, as graphs that continue while they are shown.

import * as api from "./api.js";
import { h } from "./dom.js";
import { formatSize } from "./format.js";
import { lineGraph } from "./line-graph.js";
import { LOCALE, TEXT } from "./strings.js";
import { poll } from "./widgets.js";

/** Samples that are shown, as many as the server keeps. */
const SAMPLES = 360;

const number = (/** @type {number} */ n) => n.toLocaleString(LOCALE, { maximumSignificantDigits: 3 });
const percent = (/** @type {number} */ n) => n.toLocaleString(LOCALE, { style: "percent" });
const duration = (/** @type {number} */ seconds) => (seconds < 1
  ? TEXT.milliseconds(Math.round(1000 * seconds)) : seconds.toLocaleString(LOCALE, { style: "unit", unit: "second", maximumSignificantDigits: 3 }));

/** Title, formatter, and the series of the server with their names. @type {Array<[string, (value: number) => string, Record<string, string>]>} */
const GRAPHS = [
  [TEXT.requests, (n) => TEXT.perSecond(number(n)), { requestsPerSecond: "" }],
  [TEXT.sent, (n) => TEXT.perSecond(formatSize(n)), { sentBytesPerSecond: "" }],
  [TEXT.sessions, number, { sessions: "" }],
  [TEXT.encodeSlots, number, { encodeSlotsUsed: TEXT.inUse, encodeSlotsWaiting: TEXT.waiting }],
  [TEXT.runsStarted, number, { packagerRuns: TEXT.copied, ffmpegRuns: "ffmpeg", gstreamerRuns: "GStreamer", failedRuns: TEXT.failed }],
  [TEXT.untilPlayback, duration, { firstSegmentSeconds: TEXT.sessions, zapSeconds: TEXT.channels }],
  [TEXT.cacheHits, percent, { cacheHitRatio: "" }],
  [TEXT.workers, number, { workersBusy: TEXT.inUse, workersReady: TEXT.ready }],
  [TEXT.recordings, number, { recordings: "" }],
  [TEXT.untilSaved, duration, { commitSeconds: "" }],
  [TEXT.untilNoticed, duration, { libraryChangeSeconds: "" }],
  [TEXT.memory, formatSize, { memoryBytes: "" }],
  [TEXT.openFiles, number, { openDescriptors: "" }],
];

export async function graphsTab(container, { signal, showError }) {
  const graphs = GRAPHS.map(([title, format, series]) => ({ names: Object.keys(series), graph: lineGraph(title, Object.values(series), format) }));
  /** @type {Record<string, import("./line-graph.js").Values>} */
  let shown = {};
  let [startedAt, lastNumber] = ["", 0];
  const refresh = async () => {
    const status = await api.getServerStatus(lastNumber, signal);
    // The samples of a server that was started again do not follow those before.
    if (status.startedAt !== startedAt) shown = {};
    ({ startedAt, lastNumber } = status);
    for (const [name, values] of Object.entries(status.series)) shown[name] = [...shown[name] ?? [], ...values].slice(-SAMPLES);
    for (const { names, graph } of graphs) graph.show(names.map((name) => shown[name]));
    return status;
  };
  const { intervalSeconds } = await refresh();
  container.replaceChildren(h("h2", {}, TEXT.graphs), h("p", { class: "muted" }, TEXT.graphsWhy), h("div", { class: "graphs" }, ...graphs.map(({ graph }) => graph.element)));
  poll(1000 * intervalSeconds, signal, showError, refresh);
}
