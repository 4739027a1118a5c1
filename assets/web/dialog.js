// A dialog over the page. It ends with its own buttons, with Back, and when another screen is shown.

import { h, iconButton } from "./dom.js";
import { focus, keyName, moveFocus } from "./keys.js";
import { TEXT } from "./strings.js";

/**
 * Opens a dialog; `children` are below its title. Returns the element, whose `close()` ends it.
 * @param {string} title
 * @param {{ className?: string, onClose?: () => void }} options
 */
export function openDialog(title, { className = "", onClose = () => {} }, ...children) {
  const opener = document.activeElement;
  const heading = h("h2", { id: "dialog-title" }, title);
  const dialog = h("dialog", { class: `dialog ${className}`, "aria-labelledby": "dialog-title" },
    h("div", { class: "dialog-head" }, heading, iconButton("close", TEXT.close, () => dialog.close())), ...children);
  const onHash = () => dialog.close();
  dialog.addEventListener("keydown", (event) => {
    event.stopPropagation(); // The screen below has keys of its own.
    const name = keyName(event);
    if (name === "Back") dialog.close();
    else if (!name.startsWith("Arrow") || /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName) && /Left|Right/.test(name)) return;
    else if (document.activeElement?.tagName === "SELECT" || !moveFocus(name, dialog)) return;
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close()); // Outside of it.
  dialog.addEventListener("close", () => {
    removeEventListener("hashchange", onHash);
    dialog.remove();
    if (opener?.isConnected) focus(opener);
    onClose();
  });
  addEventListener("hashchange", onHash);
  document.body.append(dialog);
  dialog.showModal();
  (dialog.querySelector("[data-first]") ?? dialog.querySelector("input, select, button.primary"))?.focus();
  return dialog;
}
