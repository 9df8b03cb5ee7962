// The table of hosts, as docs/hosts-and-bundlers.md has it, and what is not as it says.

import { checks } from './checks.mjs';
import { hosts } from './hosts.mjs';
import { limitations } from './limitations.mjs';

/**
 * @param {string} host
 * @param {string} check
 */
export const limitationOf = (host, check) =>
  limitations.find((limitation) => limitation.host === host && limitation.check === check);

/**
 * The fault of a result, or undefined.
 *
 * @param {string} host
 * @param {string} check
 * @param {string | undefined} failure
 */
export function surprise(host, check, failure) {
  const limitation = limitationOf(host, check);
  if (limitation === undefined) return failure;
  if (failure === undefined) return 'works, although limitations.mjs says that it does not';
  return limitation.fails.test(failure) ? undefined : `fails in another way than known: ${failure}`;
}

/** Each reason once, in the order of the list. */
const reasons = () => [...new Set(limitations.map(({ because }) => because))];

/** The table in Markdown, and its notes. */
export function expectedTable() {
  const notes = reasons();
  const cellOf = (/** @type {string} */ host, /** @type {string} */ check) => {
    const limitation = limitationOf(host, check);
    if (limitation === undefined) return 'yes';
    return `${limitation.cell} <sup>${notes.indexOf(limitation.because) + 1}</sup>`;
  };
  const rows = [
    ['', ...hosts.map(({ name }) => name)],
    ['---', ...hosts.map(() => '---')],
    ...checks.map(({ name, title }) => [title, ...hosts.map((host) => cellOf(host.name, name))]),
  ];
  const table = rows.map((row) => `| ${row.join(' | ')} |`).join('\n');
  return `${table}\n\n${notes.map((note, index) => `${index + 1}. ${note}`).join('\n')}\n`;
}
