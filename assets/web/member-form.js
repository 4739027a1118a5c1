// The picture of a user, and how others change to them on a device that is signed in.

import { HUES, SYMBOLS, avatar } from "./avatar.js";
import { h } from "./dom.js";
import { TEXT, fieldError } from "./strings.js";
import { field } from "./widgets.js";

/**
 * The fields that change a member; `change(body)` sends them. A viewer may be open to all; one's own PIN needs the password.
 * @param {(work: () => Promise<unknown>) => Promise<void>} act
 * @param {{ username: string, role: string, member: any }} user
 * @param {(body: object) => Promise<unknown>} change
 */
export function memberForms(act, user, change, isOwn) {
  return [pictureChoices(act, user, change), accessForm(act, user, change, isOwn)];
}

function pictureChoices(act, { username, member: { picture } }, change) {
  const { colour, symbol } = picture ?? { colour: null, symbol: null };
  const choice = (key, label, chosen, isChosen) => h("button", { type: "button", class: "plain", "data-key": key, "aria-label": label, "aria-pressed": String(isChosen),
    onclick: () => act(() => change({ picture: chosen })) }, avatar(username, chosen));
  return h("section", {}, h("h2", {}, TEXT.picture),
    h("div", { class: "avatars", role: "group", "aria-label": TEXT.colour }, ...Object.keys(HUES).map((name) =>
      choice(name, TEXT.colours[name], { colour: name, symbol }, name === colour))),
    h("div", { class: "avatars", role: "group", "aria-label": TEXT.symbol }, ...[null, ...Object.keys(SYMBOLS)].map((name) =>
      choice(name ?? "letter", TEXT.symbols[name ?? "letter"], { colour: colour ?? "blue", symbol: name }, name === symbol))));
}

function accessForm(act, { role, member: { hasPin, isOpen } }, change, isOwn) {
  const pin = h("input", { name: "pin", type: "password", inputmode: "numeric", pattern: "[0-9]{4,8}", maxlength: 8, autocomplete: "off" });
  const pinField = field(TEXT.pinDigits, pin);
  const current = hasPin ? "pin" : isOpen ? "open" : "password";
  const access = h("select", { name: "access", onchange: () => showPin() },
    ...["password", "pin", role !== "admin" && "open"].filter(Boolean).map((value) => h("option", { value, selected: value === current }, TEXT.accessWays[value])));
  const showPin = () => {
    pinField.hidden = access.value !== "pin";
    pin.required = access.value === "pin" && !hasPin;
    if (pinField.hidden) pin.value = "";
  };
  showPin();
  const password = h("input", { name: "currentPassword", type: "password", required: true, autocomplete: "current-password" });
  return h("section", {}, h("h2", {}, TEXT.access), h("p", { class: "muted" }, TEXT.accessWhy), h("form", { class: "fields", onsubmit: (event) => {
    event.preventDefault();
    const isKept = access.value === "pin" && !pin.value;
    return act(() => change({ isOpen: access.value === "open", ...(!isKept && { pin: pin.value || null }), ...(isOwn && { currentPassword: password.value }) })
      .catch((error) => { throw error.code === "INVALID_CREDENTIALS" ? fieldError("currentPassword") : error; }));
  } }, field(TEXT.accessBy, access), pinField, isOwn && field(TEXT.currentPassword, password), h("button", { class: "primary" }, TEXT.save)));
}
