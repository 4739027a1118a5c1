// What an admin looks after: the server, channels, users, players; and what everybody does: devices, the password.

import * as api from "./api.js";
import { h } from "./dom.js";
import { channelTab } from "./channels.js";
import { TEXT, day, explain, time } from "./strings.js";

const when = (instant) => (instant ? `${day(instant)}, ${time(instant)}` : "");

export async function settings(stage, params) {
  document.title = `${TEXT.settings} – Hearthcast`;
  const { user } = await api.me();
  const admin = user.role === "admin";
  const tabs = {
    ...(admin && { server: [TEXT.server, server], channels: [TEXT.channels, channelTab], users: [TEXT.users, users] }),
    tokens: [TEXT.tokens, tokens],
    devices: [TEXT.devices, devices],
    account: [TEXT.account, account],
  };
  const name = tabs[params.get("tab")] ? params.get("tab") : Object.keys(tabs)[0];
  const place = h("div", { class: "tab" });
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  stage.replaceChildren(
    h("div", { class: "heading" }, h("h1", {}, TEXT.settings)),
    h("nav", { class: "tabs", "aria-label": TEXT.settings }, ...Object.entries(tabs).map(([key, [label]]) =>
      h("a", { href: `#/settings?tab=${key}`, "aria-current": key === name ? "page" : null, "data-first": key === name ? true : null }, label))),
    notice, place);
  /** Does something and shows the tab anew; says what is wrong instead. */
  const act = async (work) => {
    notice.hidden = true;
    try {
      await work();
      await draw();
    } catch (error) {
      notice.textContent = explain(error);
      notice.hidden = false;
    }
  };
  const draw = () => tabs[name][1](place, act, user, params);
  await draw();
}

/** A table of things, each with what can be done to it. */
export function table(heads, rows) {
  return h("div", { class: "sheet" }, h("table", {},
    h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, ...rows.map((cells) => h("tr", {}, ...cells.map((cell) => h("td", {}, cell ?? "")))))));
}

/** A button that asks once more before it does something that cannot be taken back. */
export function remover(act, work, label = TEXT.remove) {
  const button = h("button", { type: "button", onclick: () => {
    if (button.dataset.sure) return act(work);
    button.dataset.sure = "yes";
    button.textContent = TEXT.sure;
    setTimeout(() => {
      delete button.dataset.sure;
      button.textContent = label;
    }, 4000);
  } }, label);
  return button;
}

/** Fields in a row, and what to do with them. */
export function form(act, fields, label, work) {
  const inputs = fields.map(([name, text, attributes]) =>
    h("label", { class: "field" }, h("span", {}, text), h("input", { name, required: true, ...attributes })));
  return h("form", { class: "fields", onsubmit: (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.target));
    act(() => work(values));
  } }, ...inputs, h("button", { class: "primary" }, label));
}

async function server(place) {
  const { local } = await api.workers();
  const lines = [
    ["State", local.status === "available" ? "Works" : local.fallback.userMessage],
    ["Converting now", `${local.activeJobCount} of ${local.maxConcurrentJobs} at once`],
    ["Requests that wait", String(local.queueLength)],
    ["Converter", [local.transcoder?.name, local.transcoder?.version].filter(Boolean).join(" ")],
    ["Reads files with", [local.pipelines?.native, local.pipelines?.version].filter(Boolean).join(" ")],
    ["Encoders", local.encoders.map(({ name, kind }) => `${name} (${kind})`).join(", ") || "none"],
    ["Cannot be used", local.rejectedEncoders.map(({ name, reason }) => `${name}: ${reason}`).join("; ")],
    ["Last failure", local.lastError && `${when(local.lastError.at)}: ${local.lastError.message}`],
  ].filter(([, value]) => value);
  place.replaceChildren(h("section", { class: "facts" },
    h("dl", {}, ...lines.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))))));
}

async function users(place, act, me) {
  const { users: all } = await api.users();
  place.replaceChildren(
    table(["Name", "May", "Since", ""], all.map(({ id, username, role, createdAt }) =>
      [username, role === "admin" ? "everything" : "watch", when(createdAt), id !== me.id && remover(act, () => api.removeUser(id))])),
    form(act, [["username", "Name", { autocomplete: "off", maxlength: 64 }],
      ["password", "Password", { type: "password", minlength: 8, autocomplete: "new-password" }]], TEXT.add, (values) => api.addUser(values)));
}

async function devices(place, act) {
  const { sessions } = await api.devices();
  place.replaceChildren(table(["Device", "Address", "Last seen", ""], sessions.map(({ id, deviceName, address, lastSeenAt, current }) =>
    [current ? `${deviceName ?? "?"} (this one)` : deviceName ?? "?", address, when(lastSeenAt), !current && remover(act, () => api.removeDevice(id))])));
}

async function tokens(place, act) {
  const list = await api.tokens().catch((error) => (error.status === 404 ? { tokens: [] } : Promise.reject(error)));
  const shown = h("div", { class: "secret", role: "status" });
  const made = async ({ name }) => {
    const { token, secret } = await api.addToken({ name });
    const key = secret ?? token?.secret ?? token;
    const link = (what) => `${location.origin}/api/livetv/${what}?${new URLSearchParams({ token: key })}`;
    place.dataset.made = JSON.stringify([name, link("m3u"), link("xmltv")]);
  };
  const [name, m3u, xmltv] = place.dataset.made ? JSON.parse(place.dataset.made) : [];
  if (name) {
    shown.append(h("p", {}, `Give these to ${name}. They are shown only now, and let it watch live television, nothing else.`),
      ...[["Playlist (M3U)", m3u], ["Guide (XMLTV)", xmltv]].map(([label, link]) =>
        h("label", { class: "field" }, h("span", {}, label), h("input", { readonly: true, value: link, onfocus: (event) => event.target.select() }))));
    delete place.dataset.made;
  }
  place.replaceChildren(
    h("p", { class: "quiet" }, "Players such as Kodi or VLC, and television sets, watch the channels with a link of their own."),
    table(["Name", "Since", "Last used", ""], list.tokens.map(({ id, name, createdAt, lastUsedAt }) =>
      [name, when(createdAt), when(lastUsedAt), remover(act, () => api.removeToken(id))])),
    shown, form(act, [["name", "Name of the device", { maxlength: 64 }]], TEXT.add, made));
}

function account(place, act) {
  const said = h("p", { role: "status" });
  place.replaceChildren(form(async (work) => act(work), [
    ["currentPassword", "Password now", { type: "password", autocomplete: "current-password" }],
    ["newPassword", "New password", { type: "password", minlength: 8, autocomplete: "new-password" }],
  ], TEXT.save, async (values) => {
    await api.changePassword(values);
    place.dataset.saved = "yes";
  }), said);
  if (place.dataset.saved) said.textContent = TEXT.saved;
  delete place.dataset.saved;
}

