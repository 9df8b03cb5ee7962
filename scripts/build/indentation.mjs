// Takes the indentation from code, which would be a fifth of it. Lines and names stay, so traces lead to the same lines.

import { parseAst } from 'rollup/parseAst';

/**
 * Where a line begins inside of a template's text, and so with characters that count.
 *
 * @param {string} code
 */
function rangesOfTemplates(code) {
  /** @type {[number, number][]} */
  const ranges = [];
  const visit = (/** @type {any} */ node) => {
    if (node === null || typeof node !== 'object') return;
    if (node.type === 'TemplateElement') ranges.push([node.start, node.end]);
    for (const child of Object.values(node)) visit(child);
  };
  visit(parseAst(code));
  return ranges.sort(([one], [other]) => one - other);
}

/**
 * @param {string} code Of a module or a script, without comments of several lines.
 * @returns {{ code: string, removed: number[] }} How many columns each line has lost.
 */
export function withoutIndentation(code) {
  const ranges = rangesOfTemplates(code);
  /** @type {number[]} */
  const removed = [];
  let next = 0;
  let start = 0;
  const lines = code.split('\n').map((line) => {
    while (next < ranges.length && ranges[next][1] < start) next += 1;
    const counts = next < ranges.length && ranges[next][0] < start;
    const indentation = counts ? 0 : line.length - line.trimStart().length;
    removed.push(indentation);
    start += line.length + 1;
    return line.slice(indentation);
  });
  return { code: lines.join('\n'), removed };
}
