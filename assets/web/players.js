// Players that cannot sign in: a token for each, its links, and a code a television or a phone reads off the screen.

import * as api from "./api.js";
import { h, svg } from "./dom.js";
import { form, remover, table } from "./sheet.js";
import { TEXT, moment } from "./strings.js";

/** Light around a code, in its dots (ISO 18004 asks for four). */
const QUIET = 4;

export async function playerTab(place, { act }) {
  const { tokens } = await api.tokens();
  // A secret is known while the tab is shown, and nowhere else.
  const made = place.made;
  delete place.made;
  const add = async ({ name }) => {
    const { secret } = await api.addToken({ name });
    place.made = { name, secret };
  };
  place.replaceChildren(
    h("p", { class: "quiet" }, TEXT.playersWhy),
    tokens.length ? table([TEXT.name, TEXT.since, TEXT.lastUsed, ""], tokens.map(({ id, name, createdAt, lastUsedAt }) =>
      [name, moment(createdAt), moment(lastUsedAt), remover(act, () => api.removeToken(id))])) : h("p", { class: "quiet" }, TEXT.noPlayers),
    made ? await links(made) : "",
    form(act, [["name", TEXT.deviceName, { maxlength: 64 }]], TEXT.add, add));
}

async function links({ name, secret }) {
  const link = (what) => `${location.origin}${api.at(`/api/livetv/${what}`)}?${new URLSearchParams({ token: secret })}`;
  const lines = [[TEXT.m3u, link("m3u")], [TEXT.xmltv, link("xmltv")]];
  return h("div", { class: "secret", role: "status" },
    h("p", {}, TEXT.giveThese(name)),
    ...await Promise.all(lines.map(async ([label, address]) => h("div", { class: "given" }, await code(address, label),
      h("label", { class: "field" }, h("span", {}, label),
        h("input", { readonly: true, value: address, onfocus: (event) => event.target.select() })),
      h("button", { type: "button", onclick: copy }, TEXT.copy)))));
}

/** Copies the address beside the button. Without a certificate the clipboard is not given, but what is selected is copied. */
async function copy({ target }) {
  const input = target.parentElement.querySelector("input");
  try {
    await navigator.clipboard.writeText(input.value);
  } catch {
    input.select();
    if (!document.execCommand("copy")) return;
    target.focus();
  }
  target.textContent = TEXT.copiedNow;
}

/** An address as a QR code. */
async function code(address, label) {
  const { generate } = await import("./vendor/qr.js");
  const dots = generate(address);
  let path = "";
  for (let y = 0; y < dots.size; y += 1) {
    for (let x = 0; x < dots.size; x += 1) if (dots.get(x, y)) path += `M${x} ${y}h1v1h-1z`;
  }
  const side = dots.size + 2 * QUIET;
  return svg("svg", { class: "qr", viewBox: `${-QUIET} ${-QUIET} ${side} ${side}`, role: "img", "aria-label": TEXT.qr(label) },
    svg("rect", { x: -QUIET, y: -QUIET, width: side, height: side }), svg("path", { d: path }));
}
