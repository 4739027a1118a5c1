// The server's status: response time, load, backend, encoders, workers and files in quarantine.

import * as api from "./api.js";
import { h } from "./dom.js";
import { confirmButton, facts, liveTable, poll } from "./widgets.js";
import { formatMoment } from "./format.js";
import { TEXT } from "./strings.js";

const POLL_MS = 3000;

export async function serverTab(container, { act, signal, showError }) {
  const factList = h("section", { class: "facts" });
  const quarantine = liveTable([TEXT.file, TEXT.cause, TEXT.since, ""], TEXT.noQuarantine, ({ id }) => id,
    ({ id, path, cause, at }, isUpdate) => [path, cause, formatMoment(at),
      isUpdate ? null : confirmButton(act, () => api.liftQuarantine(id), TEXT.tryAgain, TEXT.confirmTryAgain)]);
  container.replaceChildren(factList, h("section", {}, h("h2", {}, TEXT.quarantine), h("p", { class: "muted" }, TEXT.quarantineWhy), quarantine.element));
  const refresh = async () => {
    const began = performance.now();
    const { status } = await api.getHealth(signal);
    const elapsed = performance.now() - began;
    const { local } = await api.getWorkers(signal);
    quarantine.show((await api.getQuarantine(signal)).entries);
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
      [TEXT.workers, local.pool ? TEXT.workerCounts(local.pool) : TEXT.noWorkers],
      [TEXT.sandbox, local.pool?.sandbox && sandboxText(local.pool.sandbox)],
      [TEXT.lastCrash, local.pool?.lastDeath && `${formatMoment(local.pool.lastDeath.at)}: ${local.pool.lastDeath.cause}`],
    ]));
  };
  await refresh();
  poll(POLL_MS, signal, showError, refresh);
}

function sandboxText({ landlockAbi, seccomp, gaps }) {
  const parts = [landlockAbi !== null && `Landlock ${landlockAbi}`, seccomp && "seccomp"].filter(Boolean);
  return [parts.join(" + ") || TEXT.none, ...gaps].join("; ");
}
