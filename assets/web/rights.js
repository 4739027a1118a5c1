// The form fields about the rights to show external channels.

import { h } from "./dom.js";
import { field } from "./widgets.js";
import { TEXT } from "./strings.js";

const BASES = ["own-content", "public-domain", "licensed", "provider-subscription", "other"];

/** The fields about rights for anything external; `read()` returns them as the API expects. */
export function rightsFields() {
  const provider = h("input", { required: true, maxlength: 200 });
  const termsUrl = h("input", { required: true, type: "url", placeholder: "https://" });
  const basis = h("select", { required: true }, ...BASES.map((value) => h("option", { value }, TEXT.bases[value])));
  const statement = h("textarea", { required: true, minlength: 20, maxlength: 2000, rows: 3 });
  const recordingBasis = h("textarea", { rows: 3, maxlength: 2000 });
  const attest = h("input", { type: "checkbox", required: true });
  return {
    elements: [
      h("div", { class: "fields" }, field(TEXT.provider, provider), field(TEXT.termsUrl, termsUrl), field(TEXT.permission, basis)),
      h("div", { class: "fields" }, field(TEXT.statement, statement), field(TEXT.recordingBasis, recordingBasis)),
      h("label", { class: "checkbox" }, attest, TEXT.attest)],
    read: () => ({
      provenance: { sourceName: provider.value.trim(), sourceUrl: termsUrl.value.trim(), importedAt: new Date().toISOString() },
      rights: { basis: basis.value, statement: statement.value.trim(), recordingBasis: recordingBasis.value.trim() || null },
      attestation: { authorized: attest.checked },
    }),
  };
}
