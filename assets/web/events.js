// Server-sent events. EventSource cannot send an Authorization header, so the stream is parsed here.

import * as api from "./api.js";

/** Calls `onEvent(name, data)` for every event until the signal is aborted; reconnects when the connection drops. */
export async function listenToEvents(onEvent, signal) {
  let lastId = null;
  while (!signal.aborted) {
    try {
      const response = await api.openEventStream(lastId, signal);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let buffer = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        buffer += value;
        const messages = buffer.split("\n\n");
        buffer = messages.pop();
        for (const message of messages) {
          const field = (name) => message.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
          lastId = field("id") ?? lastId;
          if (field("event")) onEvent(field("event"), JSON.parse(field("data") ?? "{}"));
        }
      }
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      if (error.code === "UNAUTHORIZED") return;
    }
    await new Promise((resolve) => setTimeout(resolve, 3000));
  }
}
