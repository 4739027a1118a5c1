// The list of channels, and the editor of one with a preview of its schedule.

import * as api from "./api.js";
import { h } from "./dom.js";
import { nameOf } from "./links.js";
import { confirmButton, field, table } from "./widgets.js";
import { formatDay, formatTime } from "./format.js";
import { TEXT, errorText } from "./strings.js";

const MODES = ["shuffle", "sequential", "shuffleInOrder", "random", "weighted"];

export async function channelTab(container, { act, params }) {
  const id = params.get("channel");
  if (id) {
    const channel = id === "new" ? null : (await api.getChannel(id)).channel;
    container.replaceChildren(channelEditor(channel));
    return;
  }
  // External channels have a tab of their own.
  const channels = (await api.getChannels({ enabled: "all" })).channels.filter(({ sourceType }) => sourceType === "virtual");
  container.replaceChildren(
    h("p", {}, h("a", { class: "button primary", href: "#/settings?tab=channels&channel=new" }, TEXT.newChannel)),
    channels.length ? table(["", TEXT.name, TEXT.onNow, "", ""], channels.map(({ id: key, number, name, enabled, now }) => [
      number, enabled ? name : TEXT.disabled(name), now?.title,
      h("a", { class: "button", href: `#/settings?tab=channels&channel=${key}` }, TEXT.edit),
      confirmButton(act, () => api.deleteChannel(key))])) : h("p", { class: "muted" }, TEXT.noChannels));
}

function channelEditor(channel) {
  const paths = new Set(channel?.items?.map(({ path }) => path) ?? []);
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const previewArea = h("div", {});
  const name = h("input", { required: true, maxlength: 100, value: channel?.name ?? "" });
  const number = h("input", { type: "number", min: 1, max: 99999, value: channel?.number ?? "", placeholder: TEXT.automaticNumber });
  const category = h("input", { maxlength: 100, value: channel?.category ?? "" });
  const mode = h("select", {}, ...MODES.map((value) => h("option", { value, selected: value === (channel?.scheduleMode ?? "shuffle") }, TEXT.modes[value])));
  const enabled = h("input", { type: "checkbox", checked: channel?.enabled ?? true });
  const alwaysOn = h("input", { type: "checkbox", checked: channel?.alwaysOn ?? false });
  const onDemand = h("input", { type: "checkbox", checked: channel?.onDemand ?? false });
  // A channel is always running or on demand, not both: the last choice wins.
  for (const [changed, other] of [[alwaysOn, onDemand], [onDemand, alwaysOn]]) {
    changed.addEventListener("change", () => { other.checked &&= !changed.checked; });
  }
  // A daily schedule cannot be edited here and stays unchanged.
  const hasDailySchedule = channel?.scheduleMode === "blocks";
  const readForm = () => ({
    name: name.value.trim(), category: category.value.trim(), enabled: enabled.checked, alwaysOn: alwaysOn.checked,
    ...(number.value && { number: Number(number.value) }),
    ...(!hasDailySchedule && {
      scheduleMode: mode.value, onDemand: onDemand.checked,
      items: [...paths].map((path) => channel?.items?.find((item) => item.path === path) ?? { path, recursive: true }),
    }),
  });
  /** Runs `work`; shows its error in the notice. */
  const run = (work) => async (event) => {
    event.preventDefault();
    notice.hidden = true;
    try {
      await work();
    } catch (error) {
      const items = error.details?.items?.map(({ path, reason }) => `${nameOf(path)}: ${reason}`).join("; ");
      notice.textContent = [errorText(error), items].filter(Boolean).join(" ");
      notice.hidden = false;
    }
  };
  const save = run(async () => {
    await (channel ? api.updateChannel(channel.id, readForm()) : api.addChannel(readForm()));
    location.hash = "#/settings?tab=channels";
  });
  const preview = run(async () => {
    const { entries } = await (channel ? api.previewChannelUpdate(channel.id, readForm()) : api.previewChannel(readForm()));
    previewArea.replaceChildren(table(["", "", ""], entries.map(({ title, start, end }) => [`${formatDay(start)}, ${formatTime(start)}`, formatTime(end), title])));
  });
  return h("form", { class: "editor", onsubmit: save },
    h("div", { class: "fields" }, field(TEXT.channelName, name), field(TEXT.number, number), field(TEXT.category, category), !hasDailySchedule && field(TEXT.order, mode),
      h("label", { class: "checkbox" }, enabled, TEXT.enabled), h("label", { class: "checkbox" }, alwaysOn, TEXT.alwaysOn),
      !hasDailySchedule && h("label", { class: "checkbox" }, onDemand, TEXT.onDemand)),
    ...(hasDailySchedule ? [h("p", { class: "muted" }, TEXT.dailySchedule)] : [h("h2", {}, TEXT.content), mediaPicker(paths)]),
    notice,
    h("div", { class: "actions" }, h("button", { class: "primary" }, TEXT.save),
      h("button", { type: "button", onclick: preview }, TEXT.preview),
      h("a", { class: "button", href: "#/settings?tab=channels" }, TEXT.back)),
    previewArea);
}

/** Picks folders and files of the library. */
function mediaPicker(paths) {
  const chosenList = h("ul", { class: "chosen" });
  const folderList = h("ul", { class: "tree" });
  const showChosen = () => chosenList.replaceChildren(...[...paths].map((path) => h("li", {},
    h("button", { type: "button", "aria-label": `${TEXT.remove}: ${nameOf(path)}`, onclick: () => {
      paths.delete(path);
      showChosen();
    } }, `${nameOf(path)} ×`))));
  const openFolder = async (path) => {
    const page = await api.listFolder(path);
    folderList.replaceChildren(
      ...(path ? [h("li", {}, h("button", { type: "button", class: "plain", onclick: () => openFolder(page.parent) }, `← ${TEXT.backTo(page.parent ? nameOf(page.parent) : TEXT.library)}`))] : []),
      ...page.entries.map((entry) => h("li", {},
        h("button", { type: "button", onclick: () => {
          paths.add(entry.path);
          showChosen();
        } }, `+ ${entry.name}`),
        entry.kind === "folder" ? h("button", { type: "button", class: "plain", onclick: () => openFolder(entry.path), "aria-label": TEXT.openNamed(entry.name) }, TEXT.open) : "")));
  };
  showChosen();
  openFolder(null).catch(() => {});
  return h("div", { class: "picker" }, chosenList, folderList);
}
