// The picture of a user: a colour, and a symbol or the first letter of the name.

import { h, svg, tint } from "./dom.js";

/** The colours that can be chosen, as hues. */
export const HUES = { red: 0, orange: 25, yellow: 45, green: 135, teal: 175, blue: 215, violet: 265, pink: 325 };

/** The symbols that can be chosen, as paths in a square of 24. */
export const SYMBOLS = {
  star: "M12 3.500l2.600 5.400 5.900.8-4.300 4.100 1 5.900-5.200-2.800-5.200 2.800 1-5.900-4.300-4.100 5.900-.8z",
  heart: "M12 20L4.500 12a4.500 4.500 0 0 1 7.500-5a4.500 4.500 0 0 1 7.500 5z",
  moon: "M19 14.500A8 8 0 1 1 9.500 5a6.500 6.500 0 0 0 9.500 9.500z",
  sun: "M12 8a4 4 0 1 1 0 8a4 4 0 0 1 0-8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.500 1.500M17.500 17.500L19 19M19 5l-1.500 1.500M6.500 17.500L5 19",
  cat: "M5 4l4 3.500h6L19 4v9a7 7 0 0 1-14 0zM9.500 12h.01M14.500 12h.01M12 15v1.500",
  fish: "M3 12c4-7 11-7 14 0c-3 7-10 7-14 0zM17 12l4-4v8zM8 11h.01",
  flower: "M12 9.500a2.500 2.500 0 1 1 0 5a2.500 2.500 0 0 1 0-5M12 9.500a3 3 0 1 1 2.400 1.800a3 3 0 1 1-.9 2.800a3 3 0 1 1-3 0a3 3 0 1 1-.9-2.800A3 3 0 1 1 12 9.500",
  rocket: "M12 2.500c4 3.500 5 8 3.500 13h-7C7 10.500 8 6 12 2.500zM8 11l-3 4v3l4-2.500M16 11l3 4v3l-4-2.500M12 9h.01M12 18v3",
};

/** @param {string} name @param {{ colour: string, symbol: string | null } | null} [picture] */
export function avatar(name, picture) {
  const symbol = SYMBOLS[picture?.symbol];
  return h("span", { class: "avatar", style: picture ? { "--hue": HUES[picture.colour] } : tint(name), "aria-hidden": "true" },
    symbol ? svg("svg", { class: "icon", viewBox: "0 0 24 24" }, svg("path", { d: symbol })) : [...name][0]?.toUpperCase());
}
