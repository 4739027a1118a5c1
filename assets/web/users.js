// The users of the household: for each one name, role, picture, PIN, folders, a new password and the players that are connected.

import * as api from "./api.js";
import { h } from "./dom.js";
import { formatMoment } from "./format.js";
import { memberForms } from "./member-form.js";
import { TEXT } from "./strings.js";
import { confirmButton, field, form, table } from "./widgets.js";

const ROLES = { user: TEXT.roleViewer, admin: TEXT.roleAdmin };

export async function usersTab(container, { act, user, params }) {
  const { users } = await api.getUsers();
  const chosen = users.find(({ id }) => id === params.get("of"));
  container.replaceChildren(
    table([TEXT.name, TEXT.role, TEXT.since, TEXT.tokens, "", ""], users.map(({ id, username, role, createdAt, streamTokens }) =>
      [username, ROLES[role] ?? role, formatMoment(createdAt), String(streamTokens),
        h("a", { class: "button", href: `#/settings?tab=users&of=${encodeURIComponent(id)}` }, TEXT.manage),
        id !== user.id && confirmButton(act, () => api.deleteUser(id))])),
    chosen ? await userSection(chosen, act, user) : newUserSection(act));
}

function newUserSection(act) {
  const password = ["password", TEXT.password, { type: "password", minlength: 8, autocomplete: "new-password" }];
  return userForm(act, TEXT.newUser, {}, [password], TEXT.add, (values) => api.addUser(values));
}

/**
 * Name and role, and what else a new user has. One's own role is changed by another administrator.
 * @param {{ username?: string, role?: string, isOwn?: boolean }} user
 */
function userForm(act, title, user, more, label, work) {
  const roles = h("select", { name: "role", disabled: user.isOwn }, ...Object.entries(ROLES).map(([value, text]) => h("option", { value, selected: value === user.role }, text)));
  const fields = form(act, [["username", TEXT.name, { autocomplete: "off", maxlength: 64, value: user.username }], ...more], label, work);
  fields.insertBefore(field(TEXT.role, roles), fields.lastChild);
  return h("section", {}, h("h2", {}, title), h("p", { class: "muted" }, TEXT.rolesWhy), fields);
}

/** A user's name, role and folders, their players, which admins may disconnect, and a new password. One's own is in another tab, which checks the present one. */
async function userSection(chosen, act, user) {
  const { id: owner, username } = chosen;
  const [{ tokens }, { folders }] = await Promise.all([api.getUserTokens(owner), api.getMediaFolders()]);
  const change = (body) => api.changeMember(owner, body);
  return h("section", {},
    userForm(act, TEXT.nameAndRole, { ...chosen, isOwn: owner === user.id }, [], TEXT.save, async (values) => {
      await change(values);
      window.dispatchEvent(new Event("user-edited"));
    }),
    ...(owner === user.id ? [] : memberForms(act, chosen, change, false)),
    chosen.role === "admin" ? "" : foldersForm(act, folders, chosen.member.folders, change),
    h("h2", {}, TEXT.tokensOf(username)),
    tokens.length ? table([TEXT.name, TEXT.since, TEXT.lastUsed, ""], tokens.map(({ id, name, createdAt, lastUsedAt }) =>
      [name, formatMoment(createdAt), formatMoment(lastUsedAt), confirmButton(act, () => api.deleteUserToken(owner, id))])) : h("p", { class: "muted" }, TEXT.noTokens),
    owner === user.id ? "" : h("div", {}, h("h2", {}, TEXT.passwordOf(username)), h("p", { class: "muted" }, TEXT.passwordOfWhy),
      form(act, [["newPassword", TEXT.newPassword, { type: "password", minlength: 8, autocomplete: "new-password" }]], TEXT.save,
        async ({ newPassword }) => {
          await api.setUserPassword(owner, newPassword);
          location.hash = "#/settings?tab=users";
        })));
}

/** The media folders that a user sees. All of them are chosen together, so that a new folder is seen by those who see all. */
function foldersForm(act, folders, seen, change) {
  const paths = [...new Set([...folders.map(({ path }) => path), ...seen ?? []])];
  const checkbox = (name, label, checked) => h("label", { class: "checkbox" }, h("input", { name, type: "checkbox", value: label, checked }), label);
  const list = h("div", { hidden: !seen }, ...paths.map((path) => checkbox("folder", path, !seen || seen.includes(path))));
  const all = checkbox("all", TEXT.allFolders, !seen);
  all.addEventListener("change", () => { list.hidden = all.querySelector("input").checked; });
  return h("form", { class: "seen-folders", onsubmit: (event) => {
    event.preventDefault();
    const values = new FormData(event.target);
    return act(() => change({ folders: values.has("all") ? null : values.getAll("folder") }));
  } }, h("h2", {}, TEXT.mediaFolders), h("p", { class: "muted" }, TEXT.seenFoldersWhy), all, list, h("button", { class: "primary" }, TEXT.save));
}
