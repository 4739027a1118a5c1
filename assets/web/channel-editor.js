// The editor of a channel: what it plays and in which order, filler, logo and watermark, with a preview of its next day.

import * as api from "./api.js";
import { ChannelClock } from "./channel-clock.js";
import { fillerFields, logoField, watermarkFields } from "./channel-extras.js";
import { ChannelItems } from "./channel-items.js";
import { ORDERS, orderPicker } from "./channel-orders.js";
import { ChannelPreview, messageOf } from "./channel-preview.js";
import { h } from "./dom.js";
import { reportDelay } from "./format.js";
import { field } from "./widgets.js";
import { TEXT } from "./strings.js";

const CHANNELS_ADDRESS = "#/settings?tab=channels";

/** `channel` is null for a new one; `user` is the administrator. */
export function channelEditor(channel, user, signal) {
  const editor = new ChannelEditor(channel, user.id);
  signal.addEventListener("abort", () => editor.preview.close());
  return editor.element;
}

class ChannelEditor {
  constructor(channel, userId) {
    this.channel = channel;
    // A new channel is made as it was previewed.
    this.seed = channel ? undefined : Math.floor(Math.random() * Number.MAX_SAFE_INTEGER);
    this.isContentChanged = !channel;
    const change = () => this.preview.update();
    const changeContent = () => {
      this.isContentChanged = true;
      change();
    };
    this.preview = new ChannelPreview(() => this.loadPreview());
    this.notice = h("p", { class: "notice", role: "alert", hidden: true });
    this.status = h("p", { class: "muted", role: "status" });
    this.name = h("input", { required: true, maxlength: 100, value: channel?.name ?? "" });
    this.number = h("input", { type: "number", min: 1, max: 99999, value: channel?.number ?? "", placeholder: TEXT.automaticNumber });
    this.category = h("input", { maxlength: 100, value: channel?.category ?? "" });
    this.enabled = h("input", { type: "checkbox", checked: channel?.enabled ?? true });
    this.alwaysOn = h("input", { type: "checkbox", checked: channel?.alwaysOn ?? false });
    this.onDemand = h("input", { type: "checkbox", checked: channel?.onDemand ?? false });
    // A channel is always running or on demand, not both: the last choice wins.
    for (const [changed, other] of [[this.alwaysOn, this.onDemand], [this.onDemand, this.alwaysOn]]) {
      changed.addEventListener("change", () => { other.checked &&= !changed.checked; });
    }
    const options = { onChange: changeContent, userId };
    this.items = new ChannelItems(channel?.items ?? [], { ...options, label: TEXT.content });
    this.clock = new ChannelClock(channel?.schedule, options);
    this.filler = fillerFields(channel?.filler, { onChange: change, userId });
    this.logo = logoField(channel, () => {});
    this.watermark = watermarkFields(channel?.watermark, () => {});
    this.orders = orderPicker(channel?.scheduleMode ?? "shuffle", { orders: [...ORDERS, "blocks"], onChange: () => {
      this.isContentChanged = true;
      this.showMode();
      change();
    } });
    this.element = this.createElement();
    this.showMode();
    this.preview.refresh();
  }

  get isByClock() {
    return this.orders.value === "blocks";
  }

  showMode() {
    this.itemsPart.hidden = this.isByClock;
    this.clockPart.hidden = !this.isByClock;
    this.onDemand.closest("label").hidden = this.isByClock; // Such a channel keeps to the clock.
    this.items.setWeighted(this.orders.value === "weighted");
  }

  createElement() {
    const checkbox = (input, label) => h("label", { class: "checkbox" }, input, label);
    this.itemsPart = h("div", {}, this.items.element);
    this.clockPart = h("div", { hidden: true }, this.clock.element);
    return h("div", { class: "channel-editor" },
      h("form", { class: "editor", onsubmit: (event) => this.save(event) },
        h("h2", {}, this.channel?.name ?? TEXT.newChannel),
        h("div", { class: "fields" }, field(TEXT.channelName, this.name), field(TEXT.number, this.number), field(TEXT.category, this.category)),
        this.orders.element,
        h("section", {}, h("h2", {}, TEXT.content), this.itemsPart, this.clockPart),
        h("details", { class: "editor-part" }, h("summary", {}, TEXT.fillerAndBreaks), this.filler.element),
        h("details", { class: "editor-part" }, h("summary", {}, TEXT.logoAndWatermark), this.logo.element, this.watermark.element),
        h("div", { class: "switches" }, checkbox(this.enabled, TEXT.enabled), checkbox(this.alwaysOn, TEXT.alwaysOn), checkbox(this.onDemand, TEXT.onDemand)),
        this.notice,
        this.status,
        h("div", { class: "actions" }, h("button", { class: "primary" }, TEXT.save), h("a", { class: "button", href: CHANNELS_ADDRESS }, TEXT.back))),
      this.preview.element);
  }

  /** What decides which programmes play when, as the API expects it. */
  readContent() {
    const filler = this.filler.read();
    return {
      ...(this.isContentChanged && (this.isByClock ? { scheduleMode: "blocks", schedule: this.clock.read() } : { scheduleMode: this.orders.value, items: this.items.read() })),
      ...(filler && { filler }), ...(this.seed !== undefined && { seed: this.seed }),
    };
  }

  readForm() {
    const [logoUrl, watermark] = [this.logo.read(), this.watermark.read()];
    return {
      name: this.name.value.trim(), category: this.category.value.trim(), enabled: this.enabled.checked, alwaysOn: this.alwaysOn.checked,
      onDemand: !this.isByClock && this.onDemand.checked, ...(this.number.value && { number: Number(this.number.value) }),
      ...this.readContent(), ...(logoUrl !== undefined && { logoUrl }), ...(watermark !== undefined && { watermark }),
    };
  }

  loadPreview() {
    if (!(this.isByClock ? this.clock : this.items).isComplete() || !this.filler.isComplete()) return null;
    const { channel } = this;
    return channel ? api.previewChannelUpdate(channel.id, this.readContent()) : api.previewChannel({ name: TEXT.preview, ...this.readContent() });
  }

  async save(event) {
    event.preventDefault();
    this.notice.hidden = true;
    try {
      const onDelay = (seconds) => { this.status.textContent = TEXT.readingFiles(seconds); };
      await reportDelay(onDelay, this.channel ? api.updateChannel(this.channel.id, this.readForm()) : api.addChannel(this.readForm()));
      // Reading many files takes a while, in which the user may have gone to another screen.
      if (this.status.isConnected) location.hash = CHANNELS_ADDRESS;
    } catch (error) {
      this.status.textContent = "";
      this.notice.textContent = messageOf(error);
      this.notice.hidden = false;
    }
  }
}
