// Settings in groups: one's own, television, the household, the server, and what only developers need. Admins have all of them.

import * as api from "./api.js";
import { h } from "./dom.js";
import { formatMoment } from "./format.js";
import { findFocusable, focus } from "./keys.js";
import { memberForms } from "./member-form.js";
import { TEXT, errorText, fieldError } from "./strings.js";
import { confirmButton, form, table } from "./widgets.js";

/**
 * @typedef {object} TabContext
 * @property {(work: () => Promise<unknown>) => Promise<void>} act  runs `work` and redraws the tab
 * @property {{ id: string, role: string }} user
 * @property {URLSearchParams} params
 * @property {AbortSignal} signal  aborted when the tab is redrawn or left
 * @property {(error: object | null) => void} showError  shows an error, or hides it
 *
 * @typedef {(container: HTMLElement, context: TabContext) => unknown} Tab  draws itself in `container`
 *
 * @typedef {object} Group
 * @property {string} title
 * @property {boolean} [isForAdmins]
 * @property {Record<string, { label: string, isForAdmins?: boolean, load: () => Promise<Tab> }>} tabs  by their name in the address
 */

/** Larger tabs are loaded when they are opened. @type {Group[]} */
const GROUPS = [
  { title: TEXT.forYou, tabs: {
    preferences: { label: TEXT.preferences, load: async () => (await import("./preferences-tab.js")).preferencesTab },
    tokens: { label: TEXT.tokens, load: async () => (await import("./stream-tokens.js")).tokenTab },
    devices: { label: TEXT.devices, load: async () => devicesTab },
    account: { label: TEXT.account, load: async () => accountTab },
  } },
  { title: TEXT.television, tabs: {
    channels: { label: TEXT.channels, isForAdmins: true, load: async () => (await import("./channels.js")).channelTab },
    sources: { label: TEXT.sources, isForAdmins: true, load: async () => (await import("./external-channels.js")).sourceTab },
  } },
  { title: TEXT.household, isForAdmins: true, tabs: {
    users: { label: TEXT.users, load: async () => (await import("./users.js")).usersTab },
    playing: { label: TEXT.playing, load: async () => (await import("./now-playing.js")).playingTab },
  } },
  { title: TEXT.server, isForAdmins: true, tabs: {
    folders: { label: TEXT.mediaFolders, load: async () => (await import("./media-folders.js")).foldersTab },
    server: { label: TEXT.serverStatus, load: async () => (await import("./server.js")).serverTab },
    graphs: { label: TEXT.graphs, load: async () => (await import("./server-graphs.js")).graphsTab },
  } },
  { title: TEXT.developers, isForAdmins: true, tabs: {
    pipelines: { label: TEXT.pipelines, load: async () => (await import("./pipelines.js")).pipelineTab },
    log: { label: TEXT.log, load: async () => (await import("./log.js")).logTab },
  } },
];

export async function showSettings(stage, params) {
  document.title = `${TEXT.settings} – Hearthcast`;
  const { user } = await api.getCurrentUser();
  const isAllowed = (/** @type {{ isForAdmins?: boolean }} */ { isForAdmins }) => !isForAdmins || user.role === "admin";
  const groups = GROUPS.filter(isAllowed).map(({ title, tabs }) => ({ title, tabs: Object.entries(tabs).filter(([, tab]) => isAllowed(tab)) }));
  const tabs = new Map(groups.flatMap((group) => group.tabs));
  const name = tabs.has(params.get("tab") ?? "") ? params.get("tab") : [...tabs.keys()][0];
  const container = h("div", { class: "tab" });
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  stage.replaceChildren(
    h("div", { class: "heading" }, h("h1", {}, TEXT.settings)),
    h("div", { class: "settings" },
      h("nav", { class: "settings-menu", "aria-label": TEXT.settings }, ...groups.map((group) => createGroup(group, name)),
        h("section", {}, h("h2", {}, TEXT.help), h("a", { href: "help/", target: "_blank" }, TEXT.helpPages))),
      h("div", { class: "settings-page" }, notice, container)));
  const menu = stage.querySelector("nav");
  const current = stage.querySelector("[aria-current]");
  // On a phone the menu scrolls sideways.
  menu.scrollLeft = current.offsetLeft - (menu.clientWidth - current.offsetWidth) / 2;
  let drawing = new AbortController(); // Aborted when the tab is redrawn or left: ends its requests and its polling.
  let hasLeft = false;
  const showError = (error) => {
    notice.textContent = error ? errorText(error) : "";
    notice.hidden = !error;
  };
  const renderTab = await tabs.get(name).load();
  const act = async (work) => {
    showError(null);
    const hadFocus = container.contains(document.activeElement);
    try {
      await work();
      if (hasLeft) return;
      await render();
      // The pressed control was replaced: keyboard users must not start from the top.
      if (hadFocus && !container.contains(document.activeElement)) focus(findFocusable(container)[0]);
    } catch (error) {
      if (error.name !== "AbortError") showError(error);
    }
  };
  const render = () => {
    drawing.abort();
    drawing = new AbortController();
    return renderTab(container, { act, user, params, signal: drawing.signal, showError });
  };
  await render();
  return {
    leave() {
      hasLeft = true;
      drawing.abort();
    },
  };
}

const createGroup = ({ title, tabs }, current) => h("section", {}, h("h2", {}, title), ...tabs.map(([name, { label }]) =>
  h("a", { href: `#/settings?tab=${name}`, "aria-current": name === current ? "page" : null, "data-first": name === current ? true : null }, label)));

async function devicesTab(container, { act }) {
  const { sessions } = await api.getDevices();
  container.replaceChildren(table([TEXT.device, TEXT.address, TEXT.lastActive, ""], sessions.map(({ id, deviceName, address, lastSeenAt, current }) =>
    [current ? TEXT.thisDevice(deviceName ?? "?") : deviceName ?? "?", address, formatMoment(lastSeenAt),
      !current && confirmButton(act, () => api.deleteDevice(id))])));
}

async function accountTab(container, { act }) {
  const { user } = await api.getCurrentUser();
  const status = h("p", { role: "status" });
  const change = async (body) => {
    await api.changeOwnMember(body);
    window.dispatchEvent(new Event("user-edited"));
    container.dataset.saved = "yes";
  };
  container.replaceChildren(...memberForms(act, user, change, true), h("h2", {}, TEXT.password), form(act, [
    ["currentPassword", TEXT.currentPassword, { type: "password", autocomplete: "current-password" }],
    ["newPassword", TEXT.newPassword, { type: "password", minlength: 8, autocomplete: "new-password" }],
    ["keepStreamTokens", TEXT.keepTokens, { type: "checkbox", required: false }],
  ], TEXT.save, async ({ keepStreamTokens, ...passwords }) => {
    await api.changePassword({ ...passwords, keepStreamTokens: keepStreamTokens !== undefined }).catch((error) => {
      throw error.code === "INVALID_CREDENTIALS" ? fieldError("currentPassword") : error;
    });
    container.dataset.saved = "yes";
  }), status);
  if (container.dataset.saved) status.textContent = TEXT.saved;
  delete container.dataset.saved;
}
