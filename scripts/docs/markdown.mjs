// Reads Markdown as GitHub and npm do: for the checks of the pages, and for the README of the tarball.

import { remark } from 'remark';
import remarkGfm from 'remark-gfm';
import { visit } from 'unist-util-visit';

const processor = remark().use(remarkGfm);

/**
 * A link, a picture, or the definition that either refers to.
 *
 * @typedef {object} Target
 * @property {string} url As written, but with its escapes resolved.
 * @property {boolean} picture Whether a picture uses it.
 * @property {number} end Where its text ends in the page.
 */

/** @param {string} markdown */
export const parse = (markdown) => processor.parse(markdown);

/**
 * All links and pictures of a page, in order.
 *
 * @param {string} markdown
 * @returns {Target[]}
 */
export function targetsIn(markdown) {
  const tree = parse(markdown);
  /** Definitions that pictures use. */
  const pictures = new Set();
  visit(tree, 'imageReference', ({ identifier }) => void pictures.add(identifier));
  /** @type {Target[]} */
  const targets = [];
  visit(tree, (node) => {
    if (node.type !== 'link' && node.type !== 'image' && node.type !== 'definition') return;
    const picture = node.type === 'image' || (node.type === 'definition' && pictures.has(node.identifier));
    targets.push({ url: node.url, picture, end: node.position?.end.offset ?? 0 });
  });
  return targets;
}

/**
 * The HTML in a page, as it is written.
 *
 * @param {string} markdown
 * @returns {string[]}
 */
export function htmlIn(markdown) {
  /** @type {string[]} */
  const found = [];
  visit(parse(markdown), 'html', ({ value }) => void found.push(value));
  return found;
}

/**
 * The code blocks of a page in one of the languages, in order.
 *
 * @param {string} markdown
 * @param {...string} languages
 * @returns {{ language: string, meta: string, code: string }[]}
 */
export function codeIn(markdown, ...languages) {
  /** @type {{ language: string, meta: string, code: string }[]} */
  const blocks = [];
  visit(parse(markdown), 'code', ({ lang, meta, value }) => {
    if (lang && languages.includes(lang)) blocks.push({ language: lang, meta: meta ?? '', code: value });
  });
  return blocks;
}

/**
 * A block of code, fenced or indented.
 *
 * @typedef {object} Block
 * @property {string} language Empty if the block names none.
 * @property {string} code
 * @property {number} line The page's line with the first line of a fenced block's code.
 * @property {string} types The declarations of a comment right before the block, `<!-- types … -->`: names that a fragment uses.
 */

/**
 * All blocks of code of a page, in order.
 *
 * @param {string} markdown
 * @returns {Block[]}
 */
export function blocksIn(markdown) {
  /** @type {Block[]} */
  const blocks = [];
  visit(parse(markdown), 'code', ({ lang, value, position }, index, parent) => {
    const before = parent?.children[(index ?? 0) - 1];
    const comment = before?.type === 'html' ? before.value : '';
    const [, types = ''] = /^<!-- types\n([^]*)-->$/.exec(comment) ?? [];
    blocks.push({ language: lang ?? '', code: value, line: (position?.start.line ?? 0) + 1, types });
  });
  return blocks;
}

/**
 * The cells of each table of a page, as text without marks; the first row is the head.
 *
 * @param {string} markdown
 * @returns {string[][][]}
 */
export function tablesIn(markdown) {
  /** @type {string[][][]} */
  const tables = [];
  visit(parse(markdown), 'table', (table) => {
    tables.push(table.children.map((row) => row.children.map((cell) => textOf(cell))));
  });
  return tables;
}

/** @param {import('unist').Node} node */
function textOf(node) {
  let text = '';
  visit(node, (part) => {
    if ('value' in part) text += String(part.value);
  });
  return text;
}
