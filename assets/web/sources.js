// Channels from elsewhere: where each comes from, by what right it is shown, who vouches for it, and what was said when.

import * as api from "./api.js";
import { h } from "./dom.js";
import { importSection } from "./imports.js";
import { field, remover, table } from "./sheet.js";
import { TEXT, moment } from "./strings.js";

export const BASES = ["own-content", "public-domain", "licensed", "provider-subscription", "other"];

export async function sourceTab(place, { act }) {
  const [{ channels }, { entries }] = await Promise.all([api.channels({ enabled: "all" }), api.audit()]);
  // The list does not say by what right; each channel does.
  const external = await Promise.all(channels.filter(({ sourceType }) => sourceType === "external")
    .map(async ({ id }) => (await api.channel(id)).channel));
  const rows = external.map(({ id, number, name, source, provenance, rights, attestation }) => [
    `${number} ${name}`, source?.url, origin(provenance), rights && `${TEXT.bases[rights.basis]}: ${rights.statement}`,
    attestation && (attestation.authorized ? TEXT.vouched(attestation.by, moment(attestation.at)) : TEXT.withdrawn(attestation.by, moment(attestation.at))),
    attestation?.authorized
      ? remover(act, () => api.changeChannel(id, { attestation: { authorized: false } }), TEXT.withdraw, TEXT.sureWithdraw)
      : remover(act, () => api.changeChannel(id, { attestation: { authorized: true } }), TEXT.vouchAgain, TEXT.sureVouch),
    remover(act, () => api.removeChannel(id))]);
  place.replaceChildren(
    h("p", { class: "quiet" }, TEXT.sourcesWhy),
    rows.length ? table([TEXT.channel, TEXT.stream, TEXT.origin, TEXT.right, TEXT.vouches, "", ""], rows) : "",
    h("details", { open: !rows.length }, h("summary", {}, TEXT.addStream), streamForm(act)),
    ...await importSection(act),
    h("h2", {}, TEXT.audit),
    entries.length ? table([TEXT.when, TEXT.who, TEXT.what, TEXT.about, ""], entries.toReversed().map(({ at, by, action, name, changed, rights }) =>
      [moment(at), by, TEXT.acts[action] ?? action, name, [changed.join(", "), rights && TEXT.bases[rights.basis]].filter(Boolean).join(" · ")]))
      : h("p", { class: "quiet" }, TEXT.auditEmpty));
}

/** Where something comes from, with a way to look it up. */
function origin(provenance) {
  if (!provenance) return "";
  const address = /^https?:/.test(provenance.sourceUrl) ? provenance.sourceUrl : null;
  return h("span", {}, `${provenance.sourceName} `, address ? h("a", { href: address, rel: "noreferrer noopener", target: "_blank" }, TEXT.lookUp) : "");
}

/** What is asked of whoever brings something from elsewhere: `read()` gives it as the server wants it. */
export function rightsFields() {
  const name = h("input", { required: true, maxlength: 200 });
  const address = h("input", { required: true, type: "url", placeholder: "https://" });
  const basis = h("select", { required: true }, ...BASES.map((value) => h("option", { value }, TEXT.bases[value])));
  const statement = h("textarea", { required: true, minlength: 20, maxlength: 2000, rows: 3 });
  const recording = h("textarea", { rows: 3, maxlength: 2000 });
  const attest = h("input", { type: "checkbox", required: true });
  return {
    elements: [
      h("div", { class: "fields" }, field(TEXT.sourceName, name), field(TEXT.sourceUrl, address), field(TEXT.basis, basis)),
      h("div", { class: "fields" }, field(TEXT.statement, statement), field(TEXT.recordingBasis, recording)),
      h("label", { class: "check" }, attest, TEXT.attest)],
    read: () => ({
      provenance: { sourceName: name.value.trim(), sourceUrl: address.value.trim(), importedAt: new Date().toISOString() },
      rights: { basis: basis.value, statement: statement.value.trim(), recordingBasis: recording.value.trim() || null },
      attestation: { authorized: attest.checked },
    }),
  };
}

function streamForm(act) {
  const name = h("input", { required: true, maxlength: 100 });
  const number = h("input", { type: "number", min: 1, max: 99999, placeholder: TEXT.nextFree });
  const address = h("input", { required: true, type: "url", placeholder: "https://" });
  const rights = rightsFields();
  return h("form", { class: "editor", onsubmit: (event) => {
    event.preventDefault();
    return act(() => api.addChannel({
      name: name.value.trim(), ...(number.value && { number: Number(number.value) }),
      sourceType: "external", source: { url: address.value.trim() }, ...rights.read(),
    }));
  } },
  h("div", { class: "fields" }, field(TEXT.channelName, name), field(TEXT.number, number), field(TEXT.streamUrl, address)),
  ...rights.elements, h("div", { class: "actions" }, h("button", { class: "primary" }, TEXT.add)));
}
