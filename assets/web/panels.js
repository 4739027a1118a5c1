// The pop-overs of the control row: one open at a time, above its button.

import { h, iconButton } from "./dom.js";
import { findFocusable, focus } from "./keys.js";

const REFRESH_MS = 1000;

/** Definition list entries for `[name, value]` pairs; pairs without a value are left out. */
export const infoEntries = (pairs) => pairs.filter(([, value]) => value)
  .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));

export class Panels {
  /** @param {() => void} onToggle called when one opens or closes */
  constructor(onToggle) {
    this.onToggle = onToggle;
    this.element = h("div", { class: "panels" });
    this.panels = new Map();
    this.open = null;
    this.home = null; // The one that is shown while no other is open.
  }

  /** Adds a panel and its button. `refresh()` is called when it opens, and every second while it is open. */
  add(name, iconName, label, content, { isHidden = false, refresh = null } = {}) {
    const element = h("section", { class: `panel panel-${name}`, "aria-label": label, hidden: true }, h("h2", {}, label), content);
    const button = iconButton(iconName, label, () => this.toggle(name), { "aria-expanded": "false", "data-key": name, hidden: isHidden });
    this.panels.set(name, { element, button, refresh });
    this.element.append(element);
  }

  button(name) {
    return this.panels.get(name).button;
  }

  /** Hides a panel's button where there is nothing to choose. */
  setHidden(name, isHidden) {
    this.button(name).hidden = isHidden;
    if (isHidden && this.open === name) this.close();
  }

  /** Whether one is open that goes away by itself. */
  isOpen() {
    return this.open !== null && this.open !== this.home;
  }

  openElement() {
    return this.panels.get(this.open)?.element;
  }

  /** Shows a panel whenever no other is open, until it is closed. */
  setHome(name) {
    this.home = name;
    if (!this.open) this.show(name);
  }

  /** Opens a panel and closes the other, or closes it if it is open. */
  toggle(name) {
    if (this.open === name) {
      if (this.home === name) this.home = null;
      return this.close();
    }
    this.hide();
    this.show(name);
    const { element } = this.panels.get(name);
    focus(element.querySelector("[aria-current], [aria-checked=true]") ?? findFocusable(element)[0]);
    this.onToggle();
    return true;
  }

  show(name) {
    const { element, button, refresh } = this.panels.get(name);
    this.open = name;
    element.hidden = false;
    button.setAttribute("aria-expanded", "true");
    this.place(element, button);
    if (!refresh) return;
    refresh();
    this.timer = setInterval(refresh, REFRESH_MS);
  }

  hide() {
    clearInterval(this.timer);
    if (!this.open) return;
    const { element, button } = this.panels.get(this.open);
    this.open = null;
    element.hidden = true;
    button.setAttribute("aria-expanded", "false");
  }

  /** Above its button, within the window. */
  place(element, button) {
    element.style.removeProperty("right");
    const [panel, { left, width }] = [element.getBoundingClientRect(), button.getBoundingClientRect()];
    if (width === 0 || panel.width >= innerWidth - 48) return;
    const right = innerWidth - (left + width / 2) - panel.width / 2;
    element.style.setProperty("right", `${Math.max(16, Math.min(right, innerWidth - panel.width - 16))}px`);
  }

  /** Closes the open panel; the focus returns to its button. Returns whether one was open. */
  close() {
    if (!this.open) return false;
    const { element, button } = this.panels.get(this.open);
    const hadFocus = element.contains(document.activeElement);
    this.hide();
    if (this.home) this.show(this.home);
    if (hadFocus) focus(button);
    this.onToggle();
    return true;
  }
}
