// How the server is: what it can convert with, how busy it is, whether it answers.

import * as api from "./api.js";
import { h } from "./dom.js";
import { every, facts } from "./sheet.js";
import { TEXT, moment } from "./strings.js";

const EVERY_MS = 3000;

export async function serverTab(place, { signal, wrong }) {
  const lines = h("section", { class: "facts" });
  place.replaceChildren(lines);
  const show = async () => {
    const began = performance.now();
    const { status } = await api.health(signal);
    const took = performance.now() - began;
    const { local } = await api.workers(signal);
    lines.replaceChildren(facts([
      [TEXT.answers, `${status} · ${took.toFixed(0)} ms`],
      [TEXT.converter, local.status === "available" ? TEXT.works : local.fallback.userMessage],
      [TEXT.load, TEXT.converting(local.activeJobCount, local.maxConcurrentJobs)],
      [TEXT.waitingRequests, String(local.queueLength)],
      [TEXT.program, [local.transcoder?.name, local.transcoder?.version].filter(Boolean).join(" ")],
      [TEXT.reader, [local.pipelines?.native, local.pipelines?.version].filter(Boolean).join(" ")],
      [TEXT.madeBy, [local.pipelines?.backend, local.pipelines?.reason].filter(Boolean).join(": ")],
      [TEXT.encoders, local.encoders.map(({ name, kind }) => `${name} (${kind})`).join(", ") || TEXT.none],
      [TEXT.rejected, local.rejectedEncoders.map(({ name, reason }) => `${name}: ${reason}`).join("; ")],
      [TEXT.lastFailure, local.lastError && `${moment(local.lastError.at)}: ${local.lastError.message}`],
    ]));
  };
  await show();
  every(EVERY_MS, signal, wrong, show);
}
