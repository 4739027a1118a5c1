// The tables of texts: the same keys with the same parameters in every language, no key missing or unused, a sentence for every
// code of the server, and no visible text in a module of the page.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { findVisibleTexts } from "./visible-texts.mjs";

const PAGE = new URL("../../../assets/web/", import.meta.url);
const LANGUAGES = ["en", "de", "es"];
const PARTS = ["", "-settings", "-television"];

/** Groups whose keys come from the server or from a parameter. */
const BY_VALUE = new Set(["watchedFilters", "actions", "importStates", "recordingStates", "bases", "modes", "levels", "kindNames", "counts", "skipMark", "streamTypes", "work", "recordingTabs", "emptyRecordings", "modeExamples",
  "ruleKinds", "weekdays", "fillerKinds", "fillerExamples", "corners", "recordingFailures"]);

const modules = readdirSync(PAGE).filter((name) => name.endsWith(".js")).map((name) => [name, readFileSync(new URL(name, PAGE), "utf8")]);
const code = modules.map(([, text]) => text).join("\n");
const tables = Object.fromEntries(await Promise.all(LANGUAGES.map(async (language) =>
  [language, await Promise.all(PARTS.map((part) => import(new URL(`language/${language}${part}.js`, PAGE))))])));

/** `path: kind` of every text of a table; functions have their parameters, lists their length. */
function shapeOf(value, path) {
  if (typeof value === "string") return [`${path}: text`];
  if (typeof value === "function") return [`${path}: ${parametersOf(value)}`];
  if (Array.isArray(value)) return [`${path}: list of ${value.length}`];
  return Object.entries(value).flatMap(([key, inner]) => shapeOf(inner, path ? `${path}.${key}` : key));
}

const parametersOf = (text) => String(text).match(/^\(?(\{[^}]*\}|[^)=]*)\)? =>/)[1].replace(/\/\*.*?\*\//g, "").trim();

for (const language of LANGUAGES.slice(1)) {
  test(`${language} has the same texts as English, with the same parameters`, () => {
    for (const [n] of PARTS.entries()) {
      const [english, other] = ["en", language].map((name) => shapeOf({ ...tables[name][n] }, "").sort());
      assert.deepEqual(other, english);
    }
  });

  test(`${language} is translated`, () => {
    const strings = (value) => (typeof value === "string" ? [value] : typeof value === "object" ? Object.values(value).flatMap(strings) : []);
    const same = PARTS.flatMap((_, n) => {
      const [english, other] = ["en", language].map((name) => strings({ ...tables[name][n] }));
      return other.filter((text, at) => text === english[at] && /[a-z]{3}.* .*[a-z]{3}/.test(text));
    });
    assert.deepEqual(same, [], "sentences that are the English ones");
  });
}

test("no text is empty, and none has straight quotes or three full stops", () => {
  for (const [language, parts] of Object.entries(tables)) {
    const visit = (value, path) => {
      if (typeof value === "string") assert.match(value, /^(?!.*(["']|\.\.\.)).+$/s, `${language} ${path}`);
      else if (typeof value === "object") for (const [key, inner] of Object.entries(value)) visit(inner, `${path}.${key}`);
    };
    for (const part of parts) visit({ ...part }, "");
  }
});

test("every text is used, and every text that is used exists", () => {
  const texts = Object.assign({}, ...tables.en.map(({ TEXT }) => TEXT));
  const used = new Set([...code.matchAll(/\bTEXT\.(\w+)/g)].map(([, key]) => key));
  assert.deepEqual([...used].filter((key) => !(key in texts)), [], "missing");
  assert.deepEqual(Object.keys(texts).filter((key) => !used.has(key)), [], "unused");
  for (const [group, value] of Object.entries(texts)) {
    if (typeof value !== "object" || Array.isArray(value) || BY_VALUE.has(group)) continue;
    const unused = Object.keys(value).filter((key) => !new RegExp(`["'.\\s{]${key}\\b`).test(code));
    assert.deepEqual(unused, [], `unused in ${group}`);
  }
});

test("no key is in two tables of a language", () => {
  const keys = tables.en.flatMap(({ TEXT }) => Object.keys(TEXT));
  assert.deepEqual(keys.filter((key, n) => keys.indexOf(key) !== n), []);
});

test("every error code and every reason of the server has a text", () => {
  const read = (path) => readFileSync(new URL(`../../../src/${path}`, import.meta.url), "utf8");
  const { ERRORS, REASONS, UNSUPPORTED } = tables.en[1];
  const codes = [...read("error.rs").matchAll(/^ +\w+ \d{3} "([A-Z_]+)",$/gm)].map(([, name]) => name);
  assert.ok(codes.length > 30, "the codes are found");
  // These two and the one without an answer have a text of their own.
  assert.deepEqual(codes.filter((name) => !(name in ERRORS) && !["UNAUTHORIZED", "TOKEN_EXPIRED"].includes(name)), []);
  assert.deepEqual(Object.keys(ERRORS).filter((name) => !codes.includes(name)), [], "codes that the server does not have");
  const [, reasons] = read("domain/playback.rs").match(/pub enum TranscodeReason \{([^}]*)\}/);
  const names = [...reasons.matchAll(/"([A-Z_]+)"/g)].map(([, name]) => name.replace(/_NOT_SUPPORTED$/, ""));
  assert.ok(names.length > 10, "the reasons are found");
  assert.deepEqual(names.filter((name) => !(name in REASONS) && !(name in UNSUPPORTED)), []);
});

test("no visible text stands in a module", () => {
  const others = modules.filter(([name]) => name !== "keys.js"); // It has the names of keys.
  const found = others.flatMap(([name, text]) => findVisibleTexts(name, text));
  assert.deepEqual(found, []);
});

test("a visible text in a module is found", () => {
  for (const text of ['h("p", {}, "Nothing here")', 'element.title = "Stop"', 'h("a", { "aria-label": `Open ${name}` })', 'showStatus(`took ${n} seconds`)', "throw pageError(\"gone\")"]) {
    assert.notDeepEqual(findVisibleTexts("x.js", text), [], text);
  }
});
