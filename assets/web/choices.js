// A list of choices of which one is chosen, in a panel of the player.

import { h } from "./dom.js";

/**
 * @typedef {object} Choice
 * @property {string | number | null} value
 * @property {string} label
 * @property {boolean} [chosen]
 */

/** A group of choices with its heading; null when there is nothing to choose. */
export function choiceGroup(label, choices, onChoose) {
  return choices.length < 2 ? null : new ChoiceGroup(label, choices, onChoose);
}

export class ChoiceGroup {
  /** @param {Choice[]} choices  @param {(choice: Choice) => void} onChoose called when the user chooses, not by `select` */
  constructor(label, choices, onChoose) {
    this.onChoose = onChoose;
    this.list = h("div", { class: "choice-list" });
    this.element = h("div", { class: "choice-group", role: "radiogroup", "aria-label": label }, h("p", { class: "group-title", "aria-hidden": "true" }, label), this.list);
    this.setChoices(choices);
  }

  setChoices(choices) {
    this.choices = choices;
    this.buttons = choices.map((choice) => h("button", { type: "button", role: "radio", class: "choice", "aria-checked": "false", onclick: () => {
      this.select(choice.value);
      this.onChoose(choice);
    } }, choice.label));
    this.list.replaceChildren(...this.buttons);
    this.select((choices.find(({ chosen }) => chosen) ?? choices[0])?.value);
  }

  get value() {
    return this.chosen?.value;
  }

  /** Marks a value as chosen; one that is no choice is ignored. */
  select(value) {
    const index = this.choices.findIndex((choice) => choice.value === value);
    if (index < 0) return;
    this.chosen = this.choices[index];
    this.buttons.forEach((button, n) => button.setAttribute("aria-checked", String(n === index)));
  }
}
