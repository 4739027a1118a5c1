// The size of the page, compressed as the server sends it to a browser (brotli): the first load, which is everything requested until home
// is shown, and all files of ours with one language. Served scripts do what their sources do.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { brotliCompressSync } from "node:zlib";

const ts = createRequire(import.meta.url)("typescript");

const MAX_FIRST_LOAD_BYTES = 50_000;
/** The graphs of the server take 2 kB of it; the household (profiles, PINs, folders) 3.5 kB, three modules and their texts. */
const MAX_TOTAL_BYTES = 145_500;

/** Tables of other languages than English: a browser loads one language. */
const OTHER_LANGUAGE = /language\/(de|es)/;

const sizeOf = (bodies) => bodies.map((body) => brotliCompressSync(body).length).reduce((sum, n) => sum + n, 0);

export async function weight({ server }, openPage) {
  const fresh = await openPage("");
  const bodies = [];
  fresh.page.on("response", (response) => {
    if (new URL(response.url()).pathname.match(/^\/($|web\/)/)) bodies.push(response.body().catch(() => Buffer.alloc(0)));
  });
  await fresh.signIn();
  await fresh.page.locator(".tile, .card").first().waitFor();
  const firstLoad = sizeOf(await Promise.all(bodies));
  console.log(`ok first load: ${firstLoad} bytes in ${bodies.length} files`);
  assert.ok(firstLoad <= MAX_FIRST_LOAD_BYTES, `the first load is ${firstLoad} bytes compressed`);
  for (const [pattern, what] of [[/\/vendor\//, "players"], [/\/web\/(settings|channel-[a-z]+|recordings|guide|player|book)\.js/, "other screens"]]) {
    assert.deepEqual(fresh.requests.filter((line) => pattern.test(line)), [], `${what} must not be loaded before they are shown`);
  }
  fresh.assertClean();

  const files = await readFiles(server.base);
  const total = sizeOf([...files].filter(([name]) => !OTHER_LANGUAGE.test(name)).map(([, body]) => body));
  console.log(`ok all files: ${total} bytes with one language`);
  assert.ok(total <= MAX_TOTAL_BYTES, `all files are ${total} bytes compressed`);
  for (const [name, body] of files) {
    if (!name.endsWith(".js")) continue;
    const source = readFileSync(`assets/${name}`, "utf8");
    assert.deepEqual(syntaxOf(body.toString()), syntaxOf(source), `${name} is served as it was written`);
  }
}

/** All files of the page but images and vendored ones, by name. */
async function readFiles(base) {
  const list = await (await fetch(`${base}/web/shell.js`)).text();
  const { files } = JSON.parse(list.match(/^self\.SHELL = (.*);$/m)[1]);
  const names = [...Object.keys(files), "web/service-worker.js"];
  return new Map(await Promise.all(names.map(async (name) => [name, Buffer.from(await (await fetch(`${base}/${name}`)).arrayBuffer())])));
}

/** The syntax tree as a list: the kind of each node, its operator, and the text of names, literals and templates. */
function syntaxOf(text) {
  const file = ts.createSourceFile("module.js", text, ts.ScriptTarget.ESNext, true, ts.ScriptKind.JS);
  const found = [];
  const visit = (node) => {
    const hasText = ts.isIdentifier(node) || ts.isPrivateIdentifier(node) || ts.isLiteralExpression(node) || ts.isTemplateHead(node)
      || ts.isTemplateMiddle(node) || ts.isTemplateTail(node);
    found.push(`${node.kind} ${node.operator ?? ""} ${hasText ? node.getText(file) : ""}`);
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}
