// Finds texts in the code of a module that a user would see: what `h` gets as children or as a label, what is set as text or title,
// and everything that reads like words. The syntax tree is TypeScript's.

import { createRequire } from "node:module";
import { join } from "node:path";

const ts = createRequire(join(process.env.HEARTHCAST_WEB_MODULES ?? process.cwd(), "package.json"))("typescript");

/** Names that are the same in every language. */
const NAMES = new Set(["Landlock ", "seccomp", "Opus", "Vorbis", "Bearer ", "https://"]);

/** Attributes and properties that are shown or read aloud. */
const SHOWN = new Set(["aria-label", "title", "placeholder", "alt", "label", "textContent", "innerText", "ariaLabel", "aria-valuetext"]);

/** Other attributes, and data of elements. */
const HIDDEN = /^(class|style|src|href|rel|d|viewBox|sizes|accept)$|-/;

/** Functions whose first argument is shown. */
const SHOWING = new Set(["showStatus", "showNotice", "showBubble", "showError", "showSuggestion", "announce", "pageError", "alert", "confirm"]);

/** Functions whose strings are never shown. */
const SILENT = new Set(["querySelector", "querySelectorAll", "matches", "closest", "matchMedia", "addEventListener", "setProperty", "getItem", "setItem", "removeItem", "add", "remove",
  "toggle", "contains", "import", "getElementById", "createElement", "createElementNS", "Event", "Error", "DOMException", "startsWith", "endsWith", "includes", "replace",
  "resolvePath", "requestJson", "requestEmpty", "request", "ApiError", "svg", "execCommand", "icon", "split", "WindowedList"]);

/** Whether a string reads like words: two of them, or one that begins with a capital letter. */
const readsLikeWords = (text) => /\p{L}{2,}[,.!?…:]* \p{L}{2,}/u.test(text) || /^\p{Lu}\p{Ll}+$/u.test(text.trim());

export function findVisibleTexts(name, code) {
  const file = ts.createSourceFile(name, code, ts.ScriptTarget.Latest, true, ts.ScriptKind.JS);
  const found = [];
  const visit = (node) => {
    if (ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node)) {
      const words = node.text.replace(/(^| – )Hearthcast$/, "");
      if (/\p{L}{2,}/u.test(words) && !NAMES.has(words) && isVisible(node)) {
        found.push(`${name}:${file.getLineAndCharacterOfPosition(node.getStart()).line + 1} ${JSON.stringify(node.text)}`);
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

/** Decides by the nearest construct around a text that says what it is for. */
function isVisible(text) {
  const isWords = readsLikeWords(text.text);
  let isArgument = false; // Of another function: often a name.
  for (let node = text, parent = text.parent; parent; node = parent, parent = parent.parent) {
    if (ts.isImportDeclaration(parent) || ts.isElementAccessExpression(parent) && parent.argumentExpression === node || ts.isCaseClause(parent)) return false;
    if (ts.isPropertyAssignment(parent)) {
      if (parent.name === node) return false;
      const name = nameOf(parent.name);
      if (SHOWN.has(name)) return isWords || !isArgument;
      return isWords && !HIDDEN.test(name) && !isKey(parent);
    }
    if (ts.isBinaryExpression(parent)) {
      const operator = parent.operatorToken.kind;
      if (operator === ts.SyntaxKind.EqualsToken && node === parent.right && ts.isPropertyAccessExpression(parent.left)) return SHOWN.has(parent.left.name.text) ? isWords || !isArgument : isWords;
      if ([ts.SyntaxKind.EqualsEqualsEqualsToken, ts.SyntaxKind.ExclamationEqualsEqualsToken, ts.SyntaxKind.InKeyword].includes(operator)) return false;
    }
    if (ts.isCallExpression(parent) || ts.isNewExpression(parent)) {
      const callee = calleeOf(parent);
      const argument = parent.arguments?.indexOf(node) ?? -1;
      if (callee === "h" && argument >= 2) return isWords || !isArgument;
      if (callee === "h" || SILENT.has(callee)) return false;
      if (callee === "setAttribute") return SHOWN.has(parent.arguments[0]?.text) && argument === 1;
      if (SHOWING.has(callee) && argument === 0) return isWords || !isArgument;
      isArgument = true;
    }
  }
  return isWords;
}

/** The names of keys are those of `KeyboardEvent`. */
const isKey = (property) => /^(\d+|[A-Z]\w+|" ")$/.test(property.name.getText());

const nameOf = (name) => (ts.isStringLiteralLike(name) ? name.text : name.getText());

function calleeOf({ expression }) {
  if (expression.kind === ts.SyntaxKind.ImportKeyword) return "import";
  return ts.isPropertyAccessExpression(expression) ? expression.name.text : expression.getText();
}
