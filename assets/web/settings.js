// What an admin looks after: the server, channels, users; and what everybody does: players, devices, the password.

import * as api from "./api.js";
import { h } from "./dom.js";
import { focus, focusable } from "./keys.js";
import { form, remover, table } from "./sheet.js";
import { TEXT, explain, moment } from "./strings.js";

/** Tabs by their name in the address; those of admins first. Bigger ones come when they are opened. */
const ADMIN = {
  playing: [TEXT.playing, async () => (await import("./playing.js")).playingTab],
  channels: [TEXT.channels, async () => (await import("./channels.js")).channelTab],
  sources: [TEXT.sources, async () => (await import("./sources.js")).sourceTab],
  users: [TEXT.users, async () => users],
  server: [TEXT.server, async () => (await import("./server.js")).serverTab],
  pipelines: [TEXT.pipelines, async () => (await import("./pipelines.js")).pipelineTab],
  log: [TEXT.log, async () => (await import("./log.js")).logTab],
};
const ALL = {
  recordings: [TEXT.recordings, async () => (await import("./recordings.js")).recordingTab],
  tokens: [TEXT.tokens, async () => (await import("./players.js")).playerTab],
  devices: [TEXT.devices, async () => devices],
  account: [TEXT.account, async () => account],
};

/**
 * A tab is a function `(place, { act, user, params, signal, wrong })`: it shows itself in `place`. `act(work)` does
 * something and shows the tab anew, `wrong(error)` says what is wrong, `signal` ends what goes on by itself.
 */
export async function settings(stage, params) {
  document.title = `${TEXT.settings} – Hearthcast`;
  const { user } = await api.me();
  const tabs = { ...(user.role === "admin" && ADMIN), ...ALL };
  const name = tabs[params.get("tab")] ? params.get("tab") : Object.keys(tabs)[0];
  const place = h("div", { class: "tab" });
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  stage.replaceChildren(
    h("div", { class: "heading" }, h("h1", {}, TEXT.settings)),
    h("nav", { class: "tabs", "aria-label": TEXT.settings }, ...Object.entries(tabs).map(([key, [label]]) =>
      h("a", { href: `#/settings?tab=${key}`, "aria-current": key === name ? "page" : null, "data-first": key === name ? true : null }, label))),
    notice, place);
  stage.querySelector("[aria-current]").scrollIntoView({ block: "nearest", inline: "center" });
  const abort = new AbortController();
  const wrong = (error) => {
    notice.textContent = error ? explain(error) : "";
    notice.hidden = !error;
  };
  const show = await tabs[name][1]();
  const act = async (work) => {
    wrong(null);
    const held = place.contains(document.activeElement);
    try {
      await work();
      await draw();
      // What was pressed is drawn anew: whoever has only keys must not begin at the top.
      if (held && !place.contains(document.activeElement)) focus(focusable(place)[0]);
    } catch (error) {
      wrong(error);
    }
  };
  const draw = () => show(place, { act, user, params, signal: abort.signal, wrong });
  await draw();
  return { leave: () => abort.abort() };
}

async function users(place, { act, user, params }) {
  const { users: all } = await api.users();
  const owner = all.find(({ id }) => id === params.get("of"));
  place.replaceChildren(
    table([TEXT.name, TEXT.may, TEXT.since, TEXT.tokens, ""], all.map(({ id, username, role, createdAt, streamTokens }) =>
      [username, role === "admin" ? TEXT.mayAll : TEXT.mayWatch, moment(createdAt),
        streamTokens > 0 && h("a", { href: `#/settings?tab=users&of=${encodeURIComponent(id)}` }, String(streamTokens)),
        id !== user.id && remover(act, () => api.removeUser(id))])),
    owner?.streamTokens > 0 ? await playersOf(owner, act) : "",
    form(act, [["username", TEXT.name, { autocomplete: "off", maxlength: 64 }],
      ["password", TEXT.password, { type: "password", minlength: 8, autocomplete: "new-password" }]], TEXT.add, (values) => api.addUser(values)));
}

/** The stream tokens of a user, for admins. */
async function playersOf({ id: owner, username }, act) {
  const { tokens } = await api.userTokens(owner);
  return h("section", {}, h("h2", {}, TEXT.playersOf(username)),
    table([TEXT.name, TEXT.since, TEXT.lastUsed, ""], tokens.map(({ id, name, createdAt, lastUsedAt }) =>
      [name, moment(createdAt), moment(lastUsedAt), remover(act, () => api.removeUserToken(owner, id))])));
}

async function devices(place, { act }) {
  const { sessions } = await api.devices();
  place.replaceChildren(table([TEXT.device, TEXT.address, TEXT.lastSeen, ""], sessions.map(({ id, deviceName, address, lastSeenAt, current }) =>
    [current ? TEXT.thisOne(deviceName ?? "?") : deviceName ?? "?", address, moment(lastSeenAt),
      !current && remover(act, () => api.removeDevice(id))])));
}

function account(place, { act }) {
  const said = h("p", { role: "status" });
  place.replaceChildren(form(act, [
    ["currentPassword", TEXT.passwordNow, { type: "password", autocomplete: "current-password" }],
    ["newPassword", TEXT.passwordNew, { type: "password", minlength: 8, autocomplete: "new-password" }],
    ["keepStreamTokens", TEXT.keepPlayers, { type: "checkbox", required: false }],
  ], TEXT.save, async ({ keepStreamTokens, ...passwords }) => {
    await api.changePassword({ ...passwords, keepStreamTokens: keepStreamTokens !== undefined });
    place.dataset.saved = "yes";
  }), said);
  if (place.dataset.saved) said.textContent = TEXT.saved;
  delete place.dataset.saved;
}
