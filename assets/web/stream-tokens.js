// Stream tokens for players that cannot sign in, with their links and QR codes.

import * as api from "./api.js";
import { h, svg } from "./dom.js";
import { confirmButton, form, table } from "./widgets.js";
import { formatMoment } from "./format.js";
import { TEXT } from "./strings.js";

/** The quiet zone around a QR code, modules (ISO 18004 requires four). */
const QUIET_ZONE = 4;

export async function tokenTab(container, { act }) {
  const { tokens } = await api.getTokens();
  // The secret is known only until the tab is left.
  const newToken = container.newToken;
  delete container.newToken;
  const add = async ({ name }) => {
    const { secret } = await api.addToken({ name });
    container.newToken = { name, secret };
  };
  container.replaceChildren(
    h("p", { class: "muted" }, TEXT.tokensWhy),
    tokens.length ? table([TEXT.name, TEXT.since, TEXT.lastUsed, ""], tokens.map(({ id, name, createdAt, lastUsedAt }) =>
      [name, formatMoment(createdAt), formatMoment(lastUsedAt), confirmButton(act, () => api.deleteToken(id))])) : h("p", { class: "muted" }, TEXT.noTokens),
    newToken ? await renderLinks(newToken) : "",
    form(act, [["name", TEXT.deviceName, { maxlength: 64 }]], TEXT.add, add));
}

async function renderLinks({ name, secret }) {
  const link = (endpoint) => `${location.origin}${api.resolvePath(`/api/livetv/${endpoint}`)}?${new URLSearchParams({ token: secret })}`;
  const rows = [[TEXT.m3u, link("m3u")], [TEXT.xmltv, link("xmltv")]];
  return h("div", { class: "token-links", role: "status" },
    h("p", {}, TEXT.copyTheseLinks(name)),
    ...await Promise.all(rows.map(async ([label, address]) => h("div", { class: "token-link" }, await qrCode(address, label),
      h("label", { class: "field" }, h("span", {}, label),
        h("input", { readonly: true, value: address, onfocus: (event) => event.target.select() })),
      h("button", { type: "button", onclick: copyLink }, TEXT.copy)))));
}

/** Copies the link beside the button. Without HTTPS there is no clipboard API, but a selection can be copied. */
async function copyLink({ target }) {
  const input = target.parentElement.querySelector("input");
  try {
    await navigator.clipboard.writeText(input.value);
  } catch {
    input.select();
    if (!document.execCommand("copy")) return;
    target.focus();
  }
  target.textContent = TEXT.copiedToClipboard;
}

/** A QR code of an address. */
async function qrCode(address, label) {
  const { generate } = await import("./vendor/qr.js");
  const modules = /** @type {(text: string) => any} */ (generate)(address);
  let path = "";
  for (let y = 0; y < modules.size; y += 1) {
    for (let x = 0; x < modules.size; x += 1) if (modules.get(x, y)) path += `M${x} ${y}h1v1h-1z`;
  }
  const side = modules.size + 2 * QUIET_ZONE;
  return svg("svg", { class: "qr", viewBox: `${-QUIET_ZONE} ${-QUIET_ZONE} ${side} ${side}`, role: "img", "aria-label": TEXT.qr(label) },
    svg("rect", { x: -QUIET_ZONE, y: -QUIET_ZONE, width: side, height: side }), svg("path", { d: path }));
}
