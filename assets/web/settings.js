// Settings: for admins the server, channels and users; for everybody recordings, players, devices and the password.

import * as api from "./api.js";
import { h } from "./dom.js";
import { findFocusable, focus } from "./keys.js";
import { confirmButton, form, table } from "./widgets.js";
import { formatMoment } from "./format.js";
import { TEXT, errorText } from "./strings.js";

/** Tabs by their name in the address, those of admins first. Larger ones are loaded when they are opened. */
const ADMIN_TABS = {
  playing: [TEXT.playing, async () => (await import("./now-playing.js")).playingTab],
  channels: [TEXT.channels, async () => (await import("./channels.js")).channelTab],
  sources: [TEXT.sources, async () => (await import("./external-channels.js")).sourceTab],
  users: [TEXT.users, async () => usersTab],
  server: [TEXT.server, async () => (await import("./server.js")).serverTab],
  pipelines: [TEXT.pipelines, async () => (await import("./pipelines.js")).pipelineTab],
  log: [TEXT.log, async () => (await import("./log.js")).logTab],
};
const USER_TABS = {
  recordings: [TEXT.recordings, async () => (await import("./recordings.js")).recordingTab],
  tokens: [TEXT.tokens, async () => (await import("./stream-tokens.js")).tokenTab],
  devices: [TEXT.devices, async () => devicesTab],
  account: [TEXT.account, async () => passwordTab],
};

/**
 * A tab is a function `(container, { act, user, params, signal, showError })` that draws itself in `container`. `act(work)`
 * runs `work` and redraws the tab, `showError(error)` shows an error or hides it (null), and `signal` is aborted when the tab
 * is redrawn or left.
 */
export async function showSettings(stage, params) {
  document.title = `${TEXT.settings} – Hearthcast`;
  const { user } = await api.getCurrentUser();
  const tabs = { ...(user.role === "admin" && ADMIN_TABS), ...USER_TABS };
  const name = tabs[params.get("tab")] ? params.get("tab") : Object.keys(tabs)[0];
  const container = h("div", { class: "tab" });
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  stage.replaceChildren(
    h("div", { class: "heading" }, h("h1", {}, TEXT.settings)),
    h("nav", { class: "tabs", "aria-label": TEXT.settings }, ...Object.entries(tabs).map(([key, [label]]) =>
      h("a", { href: `#/settings?tab=${key}`, "aria-current": key === name ? "page" : null, "data-first": key === name ? true : null }, label))),
    notice, container);
  stage.querySelector("[aria-current]").scrollIntoView({ block: "nearest", inline: "center" });
  let drawing = new AbortController(); // Aborted when the tab is redrawn or left: ends its requests and its polling.
  let hasLeft = false;
  const showError = (error) => {
    notice.textContent = error ? errorText(error) : "";
    notice.hidden = !error;
  };
  const renderTab = await tabs[name][1]();
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

async function usersTab(container, { act, user, params }) {
  const { users: accounts } = await api.getUsers();
  const owner = accounts.find(({ id }) => id === params.get("of"));
  container.replaceChildren(
    table([TEXT.name, TEXT.role, TEXT.since, TEXT.tokens, ""], accounts.map(({ id, username, role, createdAt, streamTokens }) =>
      [username, role === "admin" ? TEXT.roleAdmin : TEXT.roleViewer, formatMoment(createdAt),
        streamTokens > 0 && h("a", { href: `#/settings?tab=users&of=${encodeURIComponent(id)}` }, String(streamTokens)),
        id !== user.id && confirmButton(act, () => api.deleteUser(id))])),
    owner?.streamTokens > 0 ? await tokenSection(owner, act) : "",
    form(act, [["username", TEXT.name, { autocomplete: "off", maxlength: 64 }],
      ["password", TEXT.password, { type: "password", minlength: 8, autocomplete: "new-password" }]], TEXT.add, (values) => api.addUser(values)));
}

/** The stream tokens of a user, for admins. */
async function tokenSection({ id: owner, username }, act) {
  const { tokens } = await api.getUserTokens(owner);
  return h("section", {}, h("h2", {}, TEXT.tokensOf(username)),
    table([TEXT.name, TEXT.since, TEXT.lastUsed, ""], tokens.map(({ id, name, createdAt, lastUsedAt }) =>
      [name, formatMoment(createdAt), formatMoment(lastUsedAt), confirmButton(act, () => api.deleteUserToken(owner, id))])));
}

async function devicesTab(container, { act }) {
  const { sessions } = await api.getDevices();
  container.replaceChildren(table([TEXT.device, TEXT.address, TEXT.lastActive, ""], sessions.map(({ id, deviceName, address, lastSeenAt, current }) =>
    [current ? TEXT.thisDevice(deviceName ?? "?") : deviceName ?? "?", address, formatMoment(lastSeenAt),
      !current && confirmButton(act, () => api.deleteDevice(id))])));
}

function passwordTab(container, { act }) {
  const status = h("p", { role: "status" });
  container.replaceChildren(form(act, [
    ["currentPassword", TEXT.currentPassword, { type: "password", autocomplete: "current-password" }],
    ["newPassword", TEXT.newPassword, { type: "password", minlength: 8, autocomplete: "new-password" }],
    ["keepStreamTokens", TEXT.keepTokens, { type: "checkbox", required: false }],
  ], TEXT.save, async ({ keepStreamTokens, ...passwords }) => {
    await api.changePassword({ ...passwords, keepStreamTokens: keepStreamTokens !== undefined }).catch((error) => {
      throw error.code === "INVALID_CREDENTIALS" ? new Error(TEXT.wrongCurrentPassword) : error;
    });
    container.dataset.saved = "yes";
  }), status);
  if (container.dataset.saved) status.textContent = TEXT.saved;
  delete container.dataset.saved;
}
