// What happens elsewhere, as the server tells it. EventSource cannot send who one is, so the stream is read by hand.

import * as api from "./api.js";

/** Calls `heard(name, data)` for every event until the signal ends it; comes back by itself when the line breaks. */
export async function listen(heard, signal) {
  let last = null;
  while (!signal.aborted) {
    try {
      const answer = await api.events(last, signal);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const parts = text.split("\n\n");
        text = parts.pop();
        for (const part of parts) {
          const field = (name) => part.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
          last = field("id") ?? last;
          if (field("event")) heard(field("event"), JSON.parse(field("data") ?? "{}"));
        }
      }
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      if (error.code === "UNAUTHORIZED") return;
    }
    await new Promise((resolve) => setTimeout(resolve, 3000));
  }
}
