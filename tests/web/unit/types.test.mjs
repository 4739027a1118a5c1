// The types in the JSDoc comments of the page, checked by TypeScript.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ts = createRequire(join(process.env.HEARTHCAST_WEB_MODULES ?? process.cwd(), "package.json"))("typescript");

const PAGE = fileURLToPath(new URL("../../../assets/web/", import.meta.url));

test("the types of the modules are right", () => {
  const names = readdirSync(PAGE).filter((name) => name.endsWith(".js"));
  const program = ts.createProgram(names.map((name) => join(PAGE, name)), {
    allowJs: true, checkJs: true, noEmit: true, skipLibCheck: true, strict: false, maxNodeModuleJsDepth: 0,
    target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler,
    lib: ["lib.esnext.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts"], types: [],
  });
  const errors = ts.getPreEmitDiagnostics(program).filter(({ file }) => file && !file.fileName.includes("/vendor/"));
  assert.deepEqual(errors.map(({ file, start, messageText }) =>
    `${basename(file.fileName)}:${file.getLineAndCharacterOfPosition(start).line + 1} ${ts.flattenDiagnosticMessageText(messageText, " ")}`), []);
});
