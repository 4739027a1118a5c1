// Who is watching: the members of the household, and another user for this device.

import * as api from "./api.js";
import { avatar } from "./avatar.js";
import { openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { TEXT, errorText } from "./strings.js";
import { field } from "./widgets.js";

/** @typedef {{ id: string, username: string, picture: { colour: string, symbol: string | null } | null, needs: string, isCurrent: boolean }} Member */

export async function showProfiles(stage) {
  document.title = `${TEXT.whoIsWatching} – Hearthcast`;
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  /** @type {{ members: Member[] }} */
  const { members } = await api.getHousehold();
  const choose = async (/** @type {Member} */ member) => {
    if (member.isCurrent) location.hash = "#/";
    else if (member.needs !== "nothing") openProofDialog(member);
    else await changeUser({ userId: member.id }).catch((error) => showError(notice, error));
  };
  stage.replaceChildren(h("div", { class: "profiles" },
    h("h1", {}, TEXT.whoIsWatching),
    h("ul", {}, ...members.map((member) => h("li", {}, h("button", { type: "button", "data-first": member.isCurrent || null, "aria-current": member.isCurrent ? "true" : null, onclick: () => choose(member) },
      avatar(member.username, member.picture), h("span", {}, member.username))))),
    notice,
    members.length === 1 && h("p", { class: "muted" }, TEXT.profilesWhy),
    h("a", { class: "button", href: "#/settings?tab=account" }, TEXT.yourProfile)));
}

function showError(notice, error) {
  notice.textContent = error.code === "INVALID_CREDENTIALS" ? TEXT.wrongProof[error.details?.needs] : errorText(error);
  notice.hidden = false;
}

/** The player is left first, so that its progress is saved for the former user. */
async function changeUser(body) {
  document.getElementById("player").dispatchEvent(new Event("dismiss"));
  await api.changeUser(body);
  location.hash = "#/";
}

/** @param {Member} member */
function openProofDialog({ id, username, picture, needs }) {
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const input = h("input", { name: "proof", type: "password", required: true, autocomplete: needs === "pin" ? "off" : "current-password",
    ...(needs === "pin" && { inputmode: "numeric", maxlength: 8 }) });
  const form = h("form", { class: "proof", onsubmit: async (event) => {
    event.preventDefault();
    notice.hidden = true;
    try {
      await changeUser({ userId: id, [needs]: input.value });
      dialog.close();
    } catch (error) {
      input.value = "";
      const left = error.details?.needs;
      if (needs === "pin" && left === "password") {
        dialog.close();
        openProofDialog({ id, username, picture, needs: left, isCurrent: false });
        return;
      }
      showError(notice, error);
      input.focus();
    }
  } }, avatar(username, picture), field(needs === "pin" ? TEXT.pin : TEXT.password, input), notice, h("button", { class: "primary" }, TEXT.continueAs));
  const dialog = openDialog(username, {}, form,
    needs === "pin" && h("button", { type: "button", class: "plain", onclick: () => {
      dialog.close();
      openProofDialog({ id, username, picture, needs: "password", isCurrent: false });
    } }, TEXT.usePassword));
}
