// The orders in which a channel plays, each with an example.

import { h } from "./dom.js";
import { TEXT } from "./strings.js";

/** The schedule modes without a clock. */
export const ORDERS = ["shuffle", "sequential", "shuffleInOrder", "random", "weighted"];

/** A choice of orders. @param {string} chosen @param {{ orders?: string[], onChange?: (order: string) => void }} options  called with the chosen one */
export function orderPicker(chosen, { orders = ORDERS, onChange = () => {} } = {}) {
  let value = orders.includes(chosen) ? chosen : orders[0];
  const buttons = orders.map((order) => h("button", { type: "button", role: "radio", class: "order", "data-key": `order-${order}`, "aria-checked": String(order === value), onclick: () => {
    value = order;
    for (const button of buttons) button.setAttribute("aria-checked", String(button === buttons[orders.indexOf(order)]));
    onChange(order);
  } }, h("span", { class: "order-name" }, TEXT.modes[order]), h("span", { class: "muted" }, TEXT.modeExamples[order])));
  return {
    element: h("div", { class: "orders", role: "radiogroup", "aria-label": TEXT.order }, h("p", { class: "orders-title", "aria-hidden": "true" }, TEXT.order), h("p", { class: "muted" }, TEXT.orderExample), ...buttons),
    get value() {
      return value;
    },
  };
}
