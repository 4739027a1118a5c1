// The list of channels.

import * as api from "./api.js";
import { channelEditor } from "./channel-editor.js";
import { h } from "./dom.js";
import { confirmButton, table } from "./widgets.js";
import { TEXT } from "./strings.js";

export async function channelTab(container, { act, params, user, signal }) {
  const id = params.get("channel");
  if (id) {
    const channel = id === "new" ? null : (await api.getChannel(id)).channel;
    container.replaceChildren(channelEditor(channel, user, signal));
    return;
  }
  // External channels have a tab of their own.
  const channels = (await api.getChannels({ enabled: "all" })).channels.filter(({ sourceType }) => sourceType === "virtual");
  container.replaceChildren(
    h("p", {}, h("a", { class: "button primary", href: "#/settings?tab=channels&channel=new" }, TEXT.newChannel)),
    channels.length ? table(["", TEXT.name, TEXT.onNow, "", ""], channels.map(({ id: key, number, name, enabled, now }) => [
      number, enabled ? name : TEXT.disabled(name), now?.title,
      h("a", { class: "button", href: `#/settings?tab=channels&channel=${key}` }, TEXT.edit),
      confirmButton(act, () => api.deleteChannel(key))])) : h("p", { class: "muted" }, TEXT.noChannels));
}
