// Separates comments from code.

import ts from 'typescript';

const SCRIPT = /\.[cm]?[jt]s$/;
export const NATIVE = /\.(?:cc|h|pml)$/;

/**
 * @typedef {object} Split
 * @property {string} code With spaces in place of comments.
 * @property {{ start: number, text: string }[]} comments
 */

/**
 * @param {string} name
 * @param {string} text
 * @returns {Split}
 */
export function split(name, text) {
  if (SCRIPT.test(name)) return cut(text, literalsOf(name, text));
  return NATIVE.test(name) ? cut(text, []) : { code: text, comments: [] };
}

/**
 * Where comments cannot begin: strings, templates and regular expressions.
 *
 * @param {string} name
 * @param {string} text
 */
function literalsOf(name, text) {
  /** @type {[start: number, end: number][]} */
  const literals = [];
  const source = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true);
  /** @param {ts.Node} node */
  const visit = (node) => {
    if (
      ts.isLiteralExpression(node) ||
      (node.kind >= ts.SyntaxKind.TemplateHead && node.kind <= ts.SyntaxKind.TemplateTail)
    ) {
      literals.push([node.getStart(source), node.end]);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return literals;
}

/** A comment or, in C++, a string, which cannot contain a comment. */
const COMMENT = /\/\/.*|\/\*[^]*?\*\/|"(?:\\.|[^"\\\n])*"/g;

/**
 * @param {string} text
 * @param {readonly [start: number, end: number][]} literals
 * @returns {Split}
 */
function cut(text, literals) {
  let masked = text;
  for (const [start, end] of literals) {
    masked = masked.slice(0, start) + ' '.repeat(end - start) + masked.slice(end);
  }
  /** @type {Split['comments']} */
  const comments = [];
  let code = text;
  for (const { 0: found, index } of masked.matchAll(COMMENT)) {
    if (found.startsWith('"')) continue;
    comments.push({ start: index, text: found });
    code = code.slice(0, index) + ' '.repeat(found.length) + code.slice(index + found.length);
  }
  return { code, comments };
}
