// Lists of channels and guides elsewhere: brought in, looked at before, read again, withdrawn.

import * as api from "./api.js";
import { h } from "./dom.js";
import { rightsFields } from "./sources.js";
import { field, remover, table } from "./sheet.js";
import { TEXT, explain, moment } from "./strings.js";

/** Entries of a preview that are shown. */
const SHOWN = 200;

/** What is brought in, and how more of it is. */
export async function importSection(act) {
  const { sources } = await api.sources();
  const rows = sources.map(({ id, kind, name, url, state, error, lastRefreshAt, counts, attestation, rights }) => [
    name, TEXT.kinds[kind], url ?? TEXT.uploaded, [TEXT.importStates[state] ?? state, error].filter(Boolean).join(": "),
    TEXT.counts(counts), moment(lastRefreshAt),
    url && state !== "withdrawn" && h("button", { type: "button", onclick: () => act(() => api.refreshSource(id)) }, TEXT.refresh),
    rights && (state === "withdrawn" || attestation?.authorized === false
      ? remover(act, () => api.changeSource(id, { attestation: { authorized: true } }), TEXT.vouchAgain, TEXT.sureVouch)
      : remover(act, () => api.changeSource(id, { attestation: { authorized: false } }), TEXT.withdraw, TEXT.sureWithdraw)),
    remover(act, () => api.removeSource(id))]);
  return [
    rows.length ? table([TEXT.name, "", TEXT.origin, TEXT.how, TEXT.holds, TEXT.readAt, "", "", ""], rows) : "",
    h("details", {}, h("summary", {}, TEXT.addImport), importForm(act)),
  ];
}

function importForm(act) {
  const kind = h("select", {}, ...Object.entries(TEXT.kinds).map(([value, label]) => h("option", { value }, label)));
  const name = h("input", { required: true, maxlength: 100 });
  const address = h("input", { type: "url", placeholder: "https://" });
  const file = h("input", { type: "file", accept: ".m3u,.m3u8,.xml,.xmltv,.gz,text/*" });
  const groups = h("input", { placeholder: TEXT.allOfThem });
  const from = h("input", { type: "number", min: 1, max: 99999, placeholder: TEXT.ownNumbers });
  const hours = h("input", { type: "number", min: 1, max: 744, placeholder: TEXT.never });
  const rights = rightsFields();
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const seen = h("div", {});
  const wanted = async () => ({
    kind: kind.value, name: name.value.trim(),
    ...(file.files[0] ? { upload: await file.files[0].text() } : { url: address.value.trim() }),
    ...(groups.value.trim() && { select: { groups: groups.value.split(",").map((group) => group.trim()).filter(Boolean) } }),
    ...(from.value && { numberFrom: Number(from.value) }), ...(hours.value && { refreshHours: Number(hours.value) }),
    ...rights.read(),
  });
  const preview = async () => {
    notice.hidden = true;
    try {
      const { counts, channels, skipped } = await api.previewSource(await wanted());
      seen.replaceChildren(h("p", { role: "status" }, TEXT.counts(counts)),
        channels.length ? table([TEXT.number, TEXT.name, TEXT.groups], channels.slice(0, SHOWN).map(({ number, name: called, groups: of }) => [number, called, of.join(", ")])) : "",
        skipped.length ? table([TEXT.line, TEXT.leftOut, TEXT.why], skipped.slice(0, SHOWN).map(({ line, name: called, reason }) => [line, called, reason])) : "");
    } catch (error) {
      notice.textContent = explain(error);
      notice.hidden = false;
    }
  };
  return h("form", { class: "editor", onsubmit: (event) => {
    event.preventDefault();
    return act(async () => api.addSource(await wanted()));
  } },
  h("div", { class: "fields" }, field(TEXT.importKind, kind), field(TEXT.importName, name), field(TEXT.importUrl, address), field(TEXT.orFile, file)),
  h("div", { class: "fields" }, field(TEXT.onlyGroups, groups), field(TEXT.numberFrom, from), field(TEXT.refreshHours, hours)),
  ...rights.elements, notice,
  h("div", { class: "actions" }, h("button", { class: "primary" }, TEXT.bringIn), h("button", { type: "button", onclick: preview }, TEXT.look)),
  seen);
}
