// Imported playlists and guides: preview, import, refresh, withdraw.

import * as api from "./api.js";
import { h } from "./dom.js";
import { rightsFields } from "./rights.js";
import { confirmButton, field, table } from "./widgets.js";
import { formatMoment } from "./format.js";
import { TEXT, errorText, skipText } from "./strings.js";

/** Most entries of a preview to show. */
const MAX_PREVIEW = 200;

/** The table of imports and the form to add one. */
export async function importSection(act) {
  const { sources } = await api.getSources();
  const rows = sources.map(({ id, kind, name, url, state, error, lastRefreshAt, counts, attestation, rights }) => [
    name, TEXT.importKinds[kind], url ?? TEXT.uploadedFile, [TEXT.importStates[state] ?? state, error && TEXT.importFailed].filter(Boolean).join(": "),
    countsText(counts), formatMoment(lastRefreshAt),
    url && state !== "withdrawn" && h("button", { type: "button", onclick: () => act(() => api.refreshSource(id)) }, TEXT.refresh),
    rights && (state === "withdrawn" || attestation?.authorized === false
      ? confirmButton(act, () => api.updateSource(id, { attestation: { authorized: true } }), TEXT.confirmPermission, TEXT.confirmAuthorised)
      : confirmButton(act, () => api.updateSource(id, { attestation: { authorized: false } }), TEXT.withdraw, TEXT.confirmWithdraw)),
    confirmButton(act, () => api.deleteSource(id))]);
  return [
    rows.length ? table([TEXT.name, "", TEXT.address, TEXT.status, TEXT.contents, TEXT.lastRefresh, "", "", ""], rows) : "",
    h("details", {}, h("summary", {}, TEXT.addImport), importForm(act)),
  ];
}

const countsText = ({ entries, channels, programmes, skipped }) =>
  [TEXT.importEntries(entries), TEXT.importChannels(channels), TEXT.importProgrammes(programmes), TEXT.importSkipped(skipped)].join(", ");

function importForm(act) {
  const kind = h("select", {}, ...Object.entries(TEXT.importKinds).map(([value, label]) => h("option", { value }, label)));
  const name = h("input", { required: true, maxlength: 100 });
  const url = h("input", { type: "url", placeholder: "https://" });
  const file = h("input", { type: "file", accept: ".m3u,.m3u8,.xml,.xmltv,.gz,text/*" });
  const groups = h("input", { placeholder: TEXT.allGroups });
  const numberFrom = h("input", { type: "number", min: 1, max: 99999, placeholder: TEXT.listNumbers });
  const refreshHours = h("input", { type: "number", min: 1, max: 744, placeholder: TEXT.never });
  const rights = rightsFields();
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const previewArea = h("div", {});
  const readForm = async () => ({
    kind: kind.value, name: name.value.trim(),
    ...(file.files[0] ? { upload: await file.files[0].text() } : { url: url.value.trim() }),
    ...(groups.value.trim() && { select: { groups: groups.value.split(",").map((group) => group.trim()).filter(Boolean) } }),
    ...(numberFrom.value && { numberFrom: Number(numberFrom.value) }), ...(refreshHours.value && { refreshHours: Number(refreshHours.value) }),
    ...rights.read(),
  });
  const preview = async () => {
    notice.hidden = true;
    try {
      const { counts, channels, skipped } = await api.previewSource(await readForm());
      previewArea.replaceChildren(h("p", { role: "status" }, countsText(counts)),
        channels.length ? table([TEXT.number, TEXT.name, TEXT.groups], channels.slice(0, MAX_PREVIEW).map(({ number, name: channelName, groups: groupNames }) => [number, channelName, groupNames.join(", ")])) : "",
        skipped.length ? table([TEXT.line, TEXT.skipped, TEXT.reason], skipped.slice(0, MAX_PREVIEW).map(({ line, name: channelName, reason }) => [line, channelName, skipText(reason)])) : "");
    } catch (error) {
      notice.textContent = errorText(error);
      notice.hidden = false;
    }
  };
  return h("form", { class: "editor", onsubmit: (event) => {
    event.preventDefault();
    return act(async () => api.addSource(await readForm()));
  } },
  h("div", { class: "fields" }, field(TEXT.importKind, kind), field(TEXT.name, name), field(TEXT.importUrl, url), field(TEXT.orUpload, file)),
  h("div", { class: "fields" }, field(TEXT.groupFilter, groups), field(TEXT.numberFrom, numberFrom), field(TEXT.refreshHours, refreshHours)),
  ...rights.elements, notice,
  h("div", { class: "actions" }, h("button", { class: "primary" }, TEXT.import), h("button", { type: "button", onclick: preview }, TEXT.preview)),
  previewArea);
}
