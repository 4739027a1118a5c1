// "Make a channel" where one stands: from a folder, a series, a genre, a person or what was found.

import * as api from "./api.js";
import { ORDERS, orderPicker } from "./channel-orders.js";
import { openDialog } from "./dialog.js";
import { h, icon } from "./dom.js";
import { reportDelay } from "./format.js";
import { focus } from "./keys.js";
import { watchLink } from "./links.js";
import { TEXT, errorText } from "./strings.js";
import { field } from "./widgets.js";

/** Longest name of a channel, characters. */
const MAX_NAME = 100;

let currentUser = null; // A promise, until another user signs in, or another screen is shown: roles may change.
for (const name of ["user-changed", "hashchange"]) addEventListener(name, () => { currentUser = null; });

/** The signed-in user if that is an administrator, otherwise null. */
export function findAdmin() {
  currentUser ??= api.getCurrentUser().catch(() => {
    currentUser = null;
    return {};
  });
  return currentUser.then(({ user }) => (user?.role === "admin" ? user : null));
}

/** A rule of one condition as an item of a channel. */
export const ruleItem = (kind, value, more = {}) => ({ rule: { kind, ...(value !== undefined && { value }), ...more } });

/**
 * A button that makes a channel; it is only shown to administrators.
 * @param {object} options
 * @param {string} options.name  of the channel, at first
 * @param {(user: object) => object[]} options.getItems  the channel's items as the API expects them
 * @param {string} [options.order]  the schedule mode, at first
 * @param {boolean} [options.isIcon]  without a label
 */
export function makeChannelButton({ name, getItems, order = "shuffle", isIcon = false }) {
  const button = h("button", { type: "button", class: isIcon ? "round make-channel" : "make-channel", hidden: true, "data-key": "make-channel",
    ...(isIcon && { "aria-label": TEXT.makeChannel, title: TEXT.makeChannel }) }, icon("tv"), !isIcon && TEXT.makeChannel);
  findAdmin().then((user) => {
    button.hidden = !user;
    button.addEventListener("click", () => openMakeChannel({ name, items: getItems(user), order }));
  });
  return button;
}

function openMakeChannel({ name, items, order }) {
  const nameField = h("input", { required: true, maxlength: MAX_NAME, value: name.slice(0, MAX_NAME) });
  const orders = orderPicker(order, { orders: ORDERS.filter((name) => name !== "weighted") }); // Weights are in the editor.
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const status = h("p", { class: "muted", role: "status" });
  const submit = async (event) => {
    event.preventDefault();
    notice.hidden = true;
    try {
      const { channel } = await reportDelay((seconds) => { status.textContent = TEXT.readingFiles(seconds); }, api.addChannel({ name: nameField.value.trim(), scheduleMode: orders.value, items }));
      showDone(channel);
    } catch (error) {
      notice.textContent = errorText(error);
      notice.hidden = false;
      status.textContent = "";
    }
  };
  const body = h("form", { class: "dialog-body", onsubmit: submit }, field(TEXT.channelName, nameField), orders.element, notice, status,
    h("div", { class: "actions" }, h("button", { class: "primary", "data-first": true }, TEXT.createChannel)));
  openDialog(TEXT.makeChannel, { className: "sheet" }, body);
  const showDone = (channel) => {
    body.replaceChildren(
      h("p", { role: "status" }, TEXT.channelOnAir(channel.name)),
      channel.now && h("p", { class: "muted" }, channel.now.title),
      h("div", { class: "actions" },
        h("a", { class: "button primary", href: watchLink(channel.id), "data-first": true }, icon("play"), TEXT.watch),
        h("a", { class: "button", href: `#/settings?tab=channels&channel=${channel.id}` }, TEXT.edit)));
    focus(body.querySelector("a"));
  };
}
