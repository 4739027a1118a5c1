// The server's current GStreamer pipelines as drawings: elements as boxes, links as lines.

import * as api from "./api.js";
import { h, svg } from "./dom.js";
import { poll } from "./widgets.js";
import { formatClock, formatSize } from "./format.js";
import { TEXT, stateLabel } from "./strings.js";

const POLL_MS = 2000;

/** Sizes of the drawing in CSS pixels. */
const BOX = { width: 172, height: 54, gapX: 34, gapY: 18, pad: 12 };

export async function pipelineTab(container, { signal, showError }) {
  const list = h("div", { class: "choices pipeline-list" });
  const drawing = h("div", { class: "drawing", tabindex: 0, "aria-label": TEXT.pipelines });
  const textForm = h("pre", { class: "text-form" });
  const emptyNote = h("p", { class: "muted" }, TEXT.noPipelines);
  container.replaceChildren(emptyNote, list, drawing, h("details", {}, h("summary", {}, TEXT.asText), textForm));
  const buttons = new Map();
  let selectedId = null;
  let shownKey = "";
  const show = async () => {
    const { pipelines, failed } = await api.getPipelines(signal);
    const all = [...pipelines, ...failed];
    for (const [id, button] of buttons) {
      if (all.some((pipeline) => pipeline.id === id)) continue;
      button.remove();
      buttons.delete(id);
    }
    for (const { id, name } of all) {
      if (buttons.has(id)) continue;
      const button = h("button", { type: "button", class: "entry", onclick: () => {
        selectedId = id;
        show().catch(() => {}); // The poll shows a failure that stays.
      } }, h("span", { class: "name" }, name), h("span", { class: "muted" }));
      buttons.set(id, button);
      list.append(button);
    }
    if (!buttons.has(selectedId)) selectedId = all[0]?.id ?? null;
    for (const { id, state, error, positionSeconds } of all) {
      const button = buttons.get(id);
      button.title = error ?? ""; // The server's own words.
      button.lastChild.textContent = [stateLabel(error ? "failed" : state), positionSeconds !== null && formatClock(positionSeconds)].filter(Boolean).join(" · ");
      button.setAttribute("aria-pressed", String(id === selectedId));
    }
    emptyNote.hidden = all.length > 0;
    const text = selectedId === null ? "" : await api.getText(`/api/debug/pipelines/${encodeURIComponent(selectedId)}.txt`, signal).catch(emptyIfNotFound);
    const queues = pipelines.find(({ id }) => id === selectedId)?.queues ?? [];
    const key = text + JSON.stringify(queues);
    if (signal.aborted || key === shownKey) return;
    shownKey = key;
    textForm.textContent = text;
    drawing.replaceChildren(...(text ? [drawGraph(parseGraph(text), queues)] : []));
  };
  await show();
  poll(POLL_MS, signal, showError, show);
}

/** The pipeline may have ended since the list was loaded. */
function emptyIfNotFound(error) {
  if (error.status === 404) return "";
  throw error;
}

/** Parses the text form: `name (factory) property=value` and `from.pad -> to.pad`. */
function parseGraph(text) {
  const [nodes, edges] = [new Map(), []];
  for (const line of text.split("\n").filter(Boolean)) {
    const link = line.match(/^(\S+)\.\S+ -> (\S+)\.\S+$/);
    if (link) edges.push([link[1], link[2]]);
    else {
      const [, name, factory, properties] = line.match(/^(\S+)(?: \((\S+)\))?(?: (.*))?$/) ?? [];
      if (name) nodes.set(name, { name, factory: factory ?? name, properties: properties ?? "" });
    }
  }
  return { nodes, edges: edges.filter(([from, to]) => nodes.has(from) && nodes.has(to)) };
}

/** The column of each element: to the right of every element that feeds it. */
function assignColumns({ nodes, edges }) {
  const columns = new Map([...nodes.keys()].map((name) => [name, 0]));
  // The longest path has as many elements as the graph, so a cycle ends there.
  for (let round = 0; round < nodes.size; round += 1) {
    let hasMoved = false;
    for (const [from, to] of edges) {
      if (columns.get(to) > columns.get(from) || columns.get(from) + 1 >= nodes.size) continue;
      columns.set(to, columns.get(from) + 1);
      hasMoved = true;
    }
    if (!hasMoved) break;
  }
  return columns;
}

function drawGraph(graph, queues) {
  const columns = assignColumns(graph);
  const rowCounts = [];
  const positions = new Map();
  for (const [name, x] of [...columns].sort((a, b) => a[1] - b[1])) {
    const row = rowCounts[x] ?? 0;
    rowCounts[x] = row + 1;
    positions.set(name, [BOX.pad + x * (BOX.width + BOX.gapX), BOX.pad + row * (BOX.height + BOX.gapY)]);
  }
  const width = BOX.pad + rowCounts.length * (BOX.width + BOX.gapX);
  const height = BOX.pad + Math.max(...rowCounts.map((rows) => rows ?? 0)) * (BOX.height + BOX.gapY);
  const middle = BOX.height / 2;
  const lines = graph.edges.map(([from, to]) => {
    const [[x1, y1], [x2, y2]] = [positions.get(from), positions.get(to)];
    const [begin, bend] = [x1 + BOX.width, BOX.gapX / 2];
    return svg("path", { class: "link", d: `M${begin} ${y1 + middle}C${begin + bend} ${y1 + middle} ${x2 - bend} ${y2 + middle} ${x2} ${y2 + middle}` });
  });
  const boxes = [...graph.nodes.values()].map(({ name, factory, properties }) => {
    const [x, y] = positions.get(name);
    const queue = queues.find(({ element }) => element === name);
    const caption = queue ? `${queue.buffers} · ${formatSize(queue.bytes)}` : name === factory ? "" : name;
    return svg("g", { transform: `translate(${x} ${y})` }, svg("title", {}, [name, properties].filter(Boolean).join(" ")),
      svg("rect", { width: BOX.width, height: BOX.height, rx: 8 }),
      svg("text", { x: 10, y: caption ? 22 : 32 }, truncate(factory)), caption ? svg("text", { class: "caption", x: 10, y: 42 }, truncate(caption)) : "");
  });
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": TEXT.pipelines }, ...lines, ...boxes);
}

const truncate = (text) => (text.length > 20 ? `${text.slice(0, 19)}…` : text);
