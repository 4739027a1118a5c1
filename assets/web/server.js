// The server's status: response time, load, backend and encoders.

import * as api from "./api.js";
import { h } from "./dom.js";
import { facts, poll } from "./widgets.js";
import { TEXT, formatMoment } from "./strings.js";

const POLL_MS = 3000;

export async function serverTab(container, { signal, showError }) {
  const factList = h("section", { class: "facts" });
  container.replaceChildren(factList);
  const refresh = async () => {
    const began = performance.now();
    const { status } = await api.getHealth(signal);
    const elapsed = performance.now() - began;
    const { local } = await api.getWorkers(signal);
    factList.replaceChildren(facts([
      [TEXT.responseTime, `${elapsed.toFixed(0)} ms · ${status}`],
      [TEXT.status, local.status === "available" ? TEXT.ready : local.fallback.userMessage],
      [TEXT.load, TEXT.conversions(local.activeJobCount, local.maxConcurrentJobs)],
      [TEXT.queue, String(local.queueLength)],
      [TEXT.converter, [local.transcoder?.name, local.transcoder?.version].filter(Boolean).join(" ")],
      [TEXT.mediaReader, [local.pipelines?.native, local.pipelines?.version].filter(Boolean).join(" ")],
      [TEXT.backend, [local.pipelines?.backend, local.pipelines?.reason].filter(Boolean).join(": ")],
      [TEXT.encoders, local.encoders.map(({ name, kind }) => `${name} (${kind})`).join(", ") || TEXT.none],
      [TEXT.rejectedEncoders, local.rejectedEncoders.map(({ name, reason }) => `${name}: ${reason}`).join("; ")],
      [TEXT.lastFailure, local.lastError && `${formatMoment(local.lastError.at)}: ${local.lastError.message}`],
    ]));
  };
  await refresh();
  poll(POLL_MS, signal, showError, refresh);
}
