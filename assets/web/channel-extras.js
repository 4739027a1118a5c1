// What a channel plays between and in its programmes, and its logo and watermark.

import { resolvePath } from "./api.js";
import { ChannelItems } from "./channel-items.js";
import { h } from "./dom.js";
import { field } from "./widgets.js";
import { TEXT } from "./strings.js";

const FILLER_KINDS = ["pre", "mid", "post", "tail", "fallback"];
const POSITIONS = ["top-left", "top-right", "bottom-left", "bottom-right"];

/** Shape of a watermark in the example, width by height. */
const MARK_RATIO = 2;

/** Filler before, in and after programmes; `read()` is undefined while it was not changed. */
export function fillerFields(filler, { onChange, userId }) {
  let isChanged = false;
  const change = () => {
    isChanged = true;
    onChange();
  };
  const editors = Object.fromEntries(FILLER_KINDS.map((kind) => [kind, new ChannelItems(filler?.[kind] ?? [], { onChange: change, label: TEXT.fillerKinds[kind], userId })]));
  const cooldown = h("input", { type: "number", min: 0, max: 1440, value: Math.round((filler?.cooldownSeconds ?? 1800) / 60), oninput: change });
  return {
    element: h("div", { class: "filler" }, h("p", { class: "muted" }, TEXT.fillerWhy), ...FILLER_KINDS.map((kind) =>
      h("details", { open: editors[kind].items.length > 0 }, h("summary", {}, TEXT.fillerKinds[kind], h("span", { class: "muted" }, ` ${TEXT.fillerExamples[kind]}`)), editors[kind].element)),
    field(TEXT.cooldown, cooldown)),
    isComplete: () => FILLER_KINDS.every((kind) => editors[kind].items.length === 0 || editors[kind].isComplete()),
    read: () => (isChanged ? { ...Object.fromEntries(FILLER_KINDS.map((kind) => [kind, editors[kind].read()])), cooldownSeconds: 60 * Number(cooldown.value) } : undefined),
  };
}

/** The logo of the channel; `read()` is undefined while it was not changed, and null for the generated one. */
export function logoField(channel, onChange) {
  const own = channel?.logoUrl && !/\/api\/livetv\/logos\//.test(channel.logoUrl) ? channel.logoUrl : "";
  const image = h("img", { class: "logo-example", alt: "", hidden: !channel });
  const input = h("input", { value: own, maxlength: 2000, placeholder: TEXT.generatedLogo, oninput: () => {
    show();
    onChange();
  } });
  // The page loads images of this server only.
  const show = () => {
    const url = input.value.trim() || (channel && !own ? channel.logoUrl : channel && `/api/livetv/logos/${channel.id}`);
    image.hidden = !url?.startsWith("/");
    if (!image.hidden) image.src = resolvePath(url);
  };
  show();
  return { element: h("div", { class: "logo-field" }, image, field(TEXT.logoAddress, input)), read: () => (input.value.trim() === own ? undefined : input.value.trim() || null) };
}

/** The watermark with an example of where it is; `read()` is undefined while it was not changed, and null for none. */
export function watermarkFields(watermark, onChange) {
  const before = JSON.stringify(watermark ?? null);
  const path = h("input", { value: watermark?.imageUrl ?? "", maxlength: 1000, placeholder: TEXT.noWatermark });
  const position = h("select", {}, ...POSITIONS.map((name) => h("option", { value: name, selected: name === (watermark?.position ?? "bottom-right") }, TEXT.corners[name])));
  const range = (min, max, value) => h("input", { type: "range", min, max, value });
  const opacity = range(1, 100, watermark?.opacity ?? 70);
  const width = range(1, 50, watermark?.widthPercent ?? 8);
  const mark = h("div", { class: "mark" });
  const example = h("div", { class: "mark-example", "aria-hidden": "true" }, mark);
  const read = () => (path.value.trim() ? { imageUrl: path.value.trim(), position: position.value, opacity: Number(opacity.value), widthPercent: Number(width.value) } : null);
  const show = () => {
    const [row, column] = position.value.split("-");
    mark.hidden = !path.value.trim();
    for (const side of ["top", "bottom", "left", "right"]) mark.style.setProperty(side, side === row || side === column ? "4%" : "auto");
    mark.style.setProperty("width", `${width.value}%`);
    mark.style.setProperty("aspect-ratio", String(MARK_RATIO));
    mark.style.setProperty("opacity", String(Number(opacity.value) / 100));
  };
  const element = h("div", { class: "watermark" }, example, h("div", { class: "watermark-fields", oninput: () => {
    show();
    onChange();
  } }, field(TEXT.watermarkPath, path), field(TEXT.corner, position), field(TEXT.opacity, opacity), field(TEXT.markWidth, width)));
  show();
  return { element, read: () => (JSON.stringify(read()) === before ? undefined : read()) };
}
