// The channel editor: what there is, what one is made of, and what it would show.

import * as api from "./api.js";
import { h } from "./dom.js";
import { nameOf } from "./links.js";
import { field, remover, table } from "./sheet.js";
import { TEXT, day, explain, time } from "./strings.js";

const MODES = ["shuffle", "sequential", "shuffleInOrder", "random", "weighted"];

export async function channelTab(place, { act, params }) {
  const id = params.get("channel");
  if (id) {
    const known = id === "new" ? null : (await api.channel(id)).channel;
    place.replaceChildren(editor(known));
    return;
  }
  // Those from elsewhere have a page of their own.
  const channels = (await api.channels({ enabled: "all" })).channels.filter(({ sourceType }) => sourceType === "virtual");
  place.replaceChildren(
    h("p", {}, h("a", { class: "button primary", href: "#/settings?tab=channels&channel=new" }, TEXT.makeChannel)),
    channels.length ? table(["", TEXT.name, TEXT.onNow, "", ""], channels.map(({ id: key, number, name, enabled, now }) => [
      number, enabled ? name : TEXT.isOff(name), now?.title,
      h("a", { class: "button", href: `#/settings?tab=channels&channel=${key}` }, TEXT.change),
      remover(act, () => api.removeChannel(key))])) : h("p", { class: "quiet" }, TEXT.noChannels));
}

function editor(known) {
  const paths = new Set(known?.items?.map(({ path }) => path) ?? []);
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const shown = h("div", {});
  const name = h("input", { required: true, maxlength: 100, value: known?.name ?? "" });
  const number = h("input", { type: "number", min: 1, max: 99999, value: known?.number ?? "", placeholder: TEXT.nextFree });
  const category = h("input", { maxlength: 100, value: known?.category ?? "" });
  const mode = h("select", {}, ...MODES.map((value) => h("option", { value, selected: value === (known?.scheduleMode ?? "shuffle") }, TEXT.modes[value])));
  const enabled = h("input", { type: "checkbox", checked: known?.enabled ?? true });
  const alwaysOn = h("input", { type: "checkbox", checked: known?.alwaysOn ?? false });
  const onDemand = h("input", { type: "checkbox", checked: known?.onDemand ?? false });
  // A channel is kept ready or airs only while somebody watches, not both: the one chosen last.
  for (const [one, other] of [[alwaysOn, onDemand], [onDemand, alwaysOn]]) {
    one.addEventListener("change", () => { other.checked &&= !one.checked; });
  }
  // A day by the clock is more than is asked here: it stays as it is.
  const clocked = known?.scheduleMode === "blocks";
  const wanted = () => ({
    name: name.value.trim(), category: category.value.trim(), enabled: enabled.checked, alwaysOn: alwaysOn.checked,
    ...(number.value && { number: Number(number.value) }),
    ...(!clocked && {
      scheduleMode: mode.value, onDemand: onDemand.checked,
      items: [...paths].map((path) => known?.items?.find((item) => item.path === path) ?? { path, recursive: true }),
    }),
  });
  /** Does something; says what is wrong instead. */
  const run = (work) => async (event) => {
    event.preventDefault();
    notice.hidden = true;
    try {
      await work();
    } catch (error) {
      const items = error.details?.items?.map(({ path, reason }) => `${nameOf(path)}: ${reason}`).join("; ");
      notice.textContent = [explain(error), items].filter(Boolean).join(" ");
      notice.hidden = false;
    }
  };
  const save = run(async () => {
    await (known ? api.changeChannel(known.id, wanted()) : api.addChannel(wanted()));
    location.hash = "#/settings?tab=channels";
  });
  const preview = run(async () => {
    const { entries } = await (known ? api.previewChange(known.id, wanted()) : api.previewChannel(wanted()));
    shown.replaceChildren(table(["", "", ""], entries.map(({ title, start, end }) => [`${day(start)}, ${time(start)}`, time(end), title])));
  });
  return h("form", { class: "editor", onsubmit: save },
    h("div", { class: "fields" }, field(TEXT.channelName, name), field(TEXT.number, number), field(TEXT.category, category), !clocked && field(TEXT.order, mode),
      h("label", { class: "check" }, enabled, TEXT.onTheAir), h("label", { class: "check" }, alwaysOn, TEXT.alwaysOn),
      !clocked && h("label", { class: "check" }, onDemand, TEXT.onDemand)),
    ...(clocked ? [h("p", { class: "quiet" }, TEXT.byTheClock)] : [h("h2", {}, TEXT.whatItShows), picker(paths)]),
    notice,
    h("div", { class: "actions" }, h("button", { class: "primary" }, TEXT.save),
      h("button", { type: "button", onclick: preview }, TEXT.preview),
      h("a", { class: "button", href: "#/settings?tab=channels" }, TEXT.back)),
    shown);
}

/** Folders and files of the library to choose from, opened where one wants to look. */
function picker(paths) {
  const chosen = h("ul", { class: "chosen" });
  const list = h("ul", { class: "tree" });
  const show = () => chosen.replaceChildren(...[...paths].map((path) => h("li", {},
    h("button", { type: "button", "aria-label": `${TEXT.remove}: ${nameOf(path)}`, onclick: () => {
      paths.delete(path);
      show();
    } }, `${nameOf(path)} ×`))));
  const open = async (path) => {
    const page = await api.browse(path);
    list.replaceChildren(
      ...(path ? [h("li", {}, h("button", { type: "button", class: "plain", onclick: () => open(page.parent) }, `← ${TEXT.up}`))] : []),
      ...page.entries.map((entry) => h("li", {},
        h("button", { type: "button", onclick: () => {
          paths.add(entry.path);
          show();
        } }, `+ ${entry.name}`),
        entry.kind === "folder" ? h("button", { type: "button", class: "plain", onclick: () => open(entry.path), "aria-label": TEXT.openNamed(entry.name) }, TEXT.open) : "")));
  };
  show();
  open(null).catch(() => {});
  return h("div", { class: "picker" }, chosen, list);
}
