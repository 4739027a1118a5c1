// The colour scheme: the system's, dark or light. `light.css` and the theme colours of `index.html` apply by their media.

import { getPreferences } from "./preferences.js";

/** Applies the preferred scheme. */
export function applyTheme() {
  const { theme } = getPreferences();
  for (const element of document.querySelectorAll("[data-scheme]")) {
    const scheme = element.getAttribute("data-scheme");
    element.setAttribute("media", theme === "system" ? `(prefers-color-scheme: ${scheme})` : theme === scheme ? "all" : "not all");
  }
}

applyTheme();
