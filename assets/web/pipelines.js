// The GStreamer pipelines of the server as they are now, drawn: elements as boxes, links as lines.

import * as api from "./api.js";
import { h, svg } from "./dom.js";
import { every } from "./sheet.js";
import { TEXT, clock, size, stateOf } from "./strings.js";

const EVERY_MS = 2000;

/** Sizes of the drawing, CSS pixels. */
const BOX = { width: 172, height: 54, gapX: 34, gapY: 18, pad: 12 };

export async function pipelineTab(place, { signal, wrong }) {
  const list = h("div", { class: "choices pipes" });
  const drawing = h("div", { class: "drawing", tabindex: 0, "aria-label": TEXT.pipelines });
  const words = h("pre", { class: "words" });
  const none = h("p", { class: "quiet" }, TEXT.noPipelines);
  place.replaceChildren(none, list, drawing, h("details", {}, h("summary", {}, TEXT.asText), words));
  const buttons = new Map();
  let chosen = null;
  let shown = "";
  const show = async () => {
    const { pipelines, failed } = await api.pipelines(signal);
    const all = [...pipelines, ...failed];
    for (const [id, button] of buttons) {
      if (all.some((pipeline) => pipeline.id === id)) continue;
      button.remove();
      buttons.delete(id);
    }
    for (const { id, name } of all) {
      if (buttons.has(id)) continue;
      const button = h("button", { type: "button", class: "entry", onclick: () => {
        chosen = id;
        show().catch(wrong);
      } }, h("span", { class: "name" }, name), h("span", { class: "quiet" }));
      buttons.set(id, button);
      list.append(button);
    }
    if (!buttons.has(chosen)) chosen = all[0]?.id ?? null;
    for (const { id, state, error, positionSeconds } of all) {
      const button = buttons.get(id);
      button.lastChild.textContent = error ?? [stateOf(state), positionSeconds !== null && clock(positionSeconds)].filter(Boolean).join(" · ");
      button.setAttribute("aria-pressed", String(id === chosen));
    }
    none.hidden = all.length > 0;
    const text = chosen === null ? "" : await api.text(`/api/debug/pipelines/${encodeURIComponent(chosen)}.txt`, signal).catch(gone);
    const queues = pipelines.find(({ id }) => id === chosen)?.queues ?? [];
    const key = text + JSON.stringify(queues);
    if (signal.aborted || key === shown) return;
    shown = key;
    words.textContent = text;
    drawing.replaceChildren(...(text ? [draw(read(text), queues)] : []));
  };
  await show();
  every(EVERY_MS, signal, wrong, show);
}

/** It may have ended between the list and the question. */
function gone(error) {
  if (error.status === 404) return "";
  throw error;
}

/** Elements and links out of the text form: `name (factory) property=value` and `from.pad -> to.pad`. */
function read(text) {
  const [nodes, edges] = [new Map(), []];
  for (const line of text.split("\n").filter(Boolean)) {
    const link = line.match(/^(\S+)\.\S+ -> (\S+)\.\S+$/);
    if (link) edges.push([link[1], link[2]]);
    else {
      const [, name, factory, set] = line.match(/^(\S+)(?: \((\S+)\))?(?: (.*))?$/) ?? [];
      if (name) nodes.set(name, { name, factory: factory ?? name, set: set ?? "" });
    }
  }
  return { nodes, edges: edges.filter(([from, to]) => nodes.has(from) && nodes.has(to)) };
}

/** Each element stands to the right of all that feed it. */
function columns({ nodes, edges }) {
  const column = new Map([...nodes.keys()].map((name) => [name, 0]));
  // No longer way than there are elements; a circle ends there.
  for (let round = 0; round < nodes.size; round += 1) {
    let moved = false;
    for (const [from, to] of edges) {
      if (column.get(to) > column.get(from) || column.get(from) + 1 >= nodes.size) continue;
      column.set(to, column.get(from) + 1);
      moved = true;
    }
    if (!moved) break;
  }
  return column;
}

function draw(graph, queues) {
  const column = columns(graph);
  const filled = [];
  const place = new Map();
  for (const [name, x] of [...column].sort((a, b) => a[1] - b[1])) {
    const row = filled[x] ?? 0;
    filled[x] = row + 1;
    place.set(name, [BOX.pad + x * (BOX.width + BOX.gapX), BOX.pad + row * (BOX.height + BOX.gapY)]);
  }
  const width = BOX.pad + filled.length * (BOX.width + BOX.gapX);
  const height = BOX.pad + Math.max(...filled.map((rows) => rows ?? 0)) * (BOX.height + BOX.gapY);
  const middle = BOX.height / 2;
  const lines = graph.edges.map(([from, to]) => {
    const [[x1, y1], [x2, y2]] = [place.get(from), place.get(to)];
    const [begin, bend] = [x1 + BOX.width, BOX.gapX / 2];
    return svg("path", { class: "link", d: `M${begin} ${y1 + middle}C${begin + bend} ${y1 + middle} ${x2 - bend} ${y2 + middle} ${x2} ${y2 + middle}` });
  });
  const boxes = [...graph.nodes.values()].map(({ name, factory, set }) => {
    const [x, y] = place.get(name);
    const queue = queues.find(({ element }) => element === name);
    const below = queue ? `${queue.buffers} · ${size(queue.bytes)}` : name === factory ? "" : name;
    return svg("g", { transform: `translate(${x} ${y})` }, svg("title", {}, [name, set].filter(Boolean).join(" ")),
      svg("rect", { width: BOX.width, height: BOX.height, rx: 8 }),
      svg("text", { x: 10, y: below ? 22 : 32 }, cut(factory)), below ? svg("text", { class: "below", x: 10, y: 42 }, cut(below)) : "");
  });
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": TEXT.pipelines }, ...lines, ...boxes);
}

const cut = (text) => (text.length > 20 ? `${text.slice(0, 19)}…` : text);
