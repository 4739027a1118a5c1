// External channels: their source, the permission to show them, who confirmed it, and the log of that.

import * as api from "./api.js";
import { h } from "./dom.js";
import { importSection } from "./imports.js";
import { rightsFields } from "./rights.js";
import { confirmButton, field, table } from "./widgets.js";
import { formatMoment } from "./format.js";
import { TEXT } from "./strings.js";

export async function sourceTab(container, { act }) {
  const [{ channels }, { entries }] = await Promise.all([api.getChannels({ enabled: "all" }), api.getAuditLog()]);
  // The list does not contain the rights; each channel does.
  const external = await Promise.all(channels.filter(({ sourceType }) => sourceType === "external")
    .map(async ({ id }) => (await api.getChannel(id)).channel));
  const rows = external.map(({ id, number, name, source, provenance, rights, attestation }) => [
    `${number} ${name}`, source?.url, providerLink(provenance), rights && `${TEXT.bases[rights.basis]}: ${rights.statement}`,
    attestation && (attestation.authorized ? TEXT.confirmed(attestation.by, formatMoment(attestation.at)) : TEXT.withdrawn(attestation.by, formatMoment(attestation.at))),
    attestation?.authorized
      ? confirmButton(act, () => api.updateChannel(id, { attestation: { authorized: false } }), TEXT.withdraw, TEXT.confirmWithdraw)
      : confirmButton(act, () => api.updateChannel(id, { attestation: { authorized: true } }), TEXT.confirmPermission, TEXT.confirmAuthorised),
    confirmButton(act, () => api.deleteChannel(id))]);
  container.replaceChildren(
    h("p", { class: "muted" }, TEXT.sourcesWhy),
    rows.length ? table([TEXT.channel, TEXT.stream, TEXT.provider, TEXT.permission, TEXT.confirmedBy, "", ""], rows) : "",
    h("details", { open: !rows.length }, h("summary", {}, TEXT.addStream), streamForm(act)),
    ...await importSection(act),
    h("h2", {}, TEXT.permissionLog),
    entries.length ? table([TEXT.when, TEXT.user, TEXT.action, TEXT.name, ""], entries.toReversed().map(({ at, by, action, name, changed, rights }) =>
      [formatMoment(at), by, TEXT.actions[action] ?? action, name, [changed.join(", "), rights && TEXT.bases[rights.basis]].filter(Boolean).join(" · ")]))
      : h("p", { class: "muted" }, TEXT.permissionLogEmpty));
}

/** The provider, with a link to its terms. */
function providerLink(provenance) {
  if (!provenance) return "";
  const address = /^https?:/.test(provenance.sourceUrl) ? provenance.sourceUrl : null;
  return h("span", {}, `${provenance.sourceName} `, address ? h("a", { href: address, rel: "noreferrer noopener", target: "_blank" }, TEXT.terms) : "");
}

function streamForm(act) {
  const name = h("input", { required: true, maxlength: 100 });
  const number = h("input", { type: "number", min: 1, max: 99999, placeholder: TEXT.automaticNumber });
  const url = h("input", { required: true, type: "url", placeholder: "https://" });
  const rights = rightsFields();
  return h("form", { class: "editor", onsubmit: (event) => {
    event.preventDefault();
    return act(() => api.addChannel({
      name: name.value.trim(), ...(number.value && { number: Number(number.value) }),
      sourceType: "external", source: { url: url.value.trim() }, ...rights.read(),
    }));
  } },
  h("div", { class: "fields" }, field(TEXT.channelName, name), field(TEXT.number, number), field(TEXT.streamUrl, url)),
  ...rights.elements, h("div", { class: "actions" }, h("button", { class: "primary" }, TEXT.add)));
}
