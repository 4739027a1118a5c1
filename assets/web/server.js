// The server: whether it is ready, its hardware, files in quarantine, and technical details.

import * as api from "./api.js";
import { h } from "./dom.js";
import { confirmButton, facts, liveTable, poll } from "./widgets.js";
import { formatMoment } from "./format.js";
import { TEXT } from "./strings.js";

const POLL_MS = 3000;

export async function serverTab(container, { act, signal, showError }) {
  const [status, hardware, technical] = [1, 2, 3].map(() => h("div", { class: "facts" }, h("p", { class: "muted" }, TEXT.loading)));
  const diagnostics = h("div", { class: "facts", lang: "en" });
  const quarantine = liveTable([TEXT.file, TEXT.cause, TEXT.since, ""], TEXT.noQuarantine, ({ id }) => id,
    ({ id, path, cause, at }, isUpdate) => [path, cause, formatMoment(at),
      isUpdate ? null : confirmButton(act, () => api.liftQuarantine(id), TEXT.tryAgain, TEXT.confirmTryAgain)]);
  container.replaceChildren(
    h("section", {}, h("h2", {}, TEXT.status), status),
    h("section", {}, h("h2", {}, TEXT.hardware), h("p", { class: "muted" }, TEXT.hardwareWhy), hardware),
    h("section", {}, h("h2", {}, TEXT.quarantine), h("p", { class: "muted" }, TEXT.quarantineWhy), quarantine.element),
    h("details", {}, h("summary", {}, TEXT.technical), technical, h("h2", {}, TEXT.diagnostics), diagnostics));
  const refresh = async () => {
    const began = performance.now();
    await api.getHealth(signal);
    const elapsed = performance.now() - began;
    const { local } = await api.getWorkers(signal);
    quarantine.show((await api.getQuarantine(signal)).entries);
    for (const [element, pairs] of [[status, statusOf(local, elapsed)], [hardware, hardwareOf(local)], [technical, technicalOf(local)], [diagnostics, diagnosticsOf(local)]]) {
      element.replaceChildren(facts(pairs));
    }
  };
  await refresh();
  poll(POLL_MS, signal, showError, refresh);
}

const statusOf = (local, elapsed) => [
  [TEXT.status, local.status === "available" ? TEXT.ready : TEXT.onlyDirectPlay],
  [TEXT.load, TEXT.conversions(local.activeJobCount, local.maxConcurrentJobs)],
  [TEXT.queue, String(local.queueLength)],
  [TEXT.responseTime, TEXT.milliseconds(Math.round(elapsed))],
];

const hardwareOf = (local) => {
  const list = (kind) => local.encoders.filter((encoder) => encoder.kind === kind).map(({ name }) => name).join(", ");
  return [
    [TEXT.hardwareEncoders, list("hardware") || TEXT.none],
    [TEXT.encoders, list("software") || TEXT.none],
    [TEXT.rejectedEncoders, local.rejectedEncoders.map(({ name }) => name).join(", ")],
  ];
};

const technicalOf = ({ transcoder, pipelines, pool, lastError }) => [
  [TEXT.converter, [transcoder?.name, transcoder?.version].filter(Boolean).join(" ")],
  [TEXT.mediaReader, [pipelines?.native, pipelines?.version].filter(Boolean).join(" ")],
  [TEXT.backend, pipelines?.backend],
  [TEXT.workers, pool ? TEXT.workerCounts(pool) : TEXT.noWorkers],
  [TEXT.sandbox, pool?.sandbox && sandboxText(pool.sandbox)],
  [TEXT.lastFailure, lastError && formatMoment(lastError.at)],
  [TEXT.lastCrash, pool?.lastDeath && formatMoment(pool.lastDeath.at)],
];

/** What the server states about itself in English, for who maintains it. */
const diagnosticsOf = ({ pipelines, rejectedEncoders, lastError, pool }) => [
  [TEXT.backend, pipelines?.reason],
  [TEXT.rejectedEncoders, rejectedEncoders.map(({ name, reason }) => `${name}: ${reason}`).join("; ")],
  [TEXT.lastFailure, lastError?.message],
  [TEXT.lastCrash, pool?.lastDeath?.cause],
  [TEXT.sandbox, pool?.sandbox?.gaps.join("; ")],
];

function sandboxText({ landlockAbi, seccomp }) {
  const parts = [landlockAbi !== null && `Landlock ${landlockAbi}`, seccomp && "seccomp"].filter(Boolean);
  return parts.join(" + ") || TEXT.none;
}
