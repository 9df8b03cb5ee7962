// The requirements of a binary on the system that loads it, and their limits.

import { readFileSync } from 'node:fs';

import { run } from '../run.mjs';

/** The libraries of Debian 10 and RHEL 8, which are the oldest that Node 20 runs on. */
const newest = { GLIBC: '2.28', GLIBCXX: '3.4.25', CXXABI: '1.3.11' };

/** Libraries of the compiler, which a system may lack. */
const compilersOwn = /^(lib(stdc\+\+|gcc_s|winpthread|c\+\+)|msvcp|vcruntime)/i;

/** @typedef {import('./targets.mjs').Target} Target */

/**
 * @param {string} a
 * @param {string} b
 */
const compare = (a, b) => a.localeCompare(b, 'en', { numeric: true });

/**
 * The highest version of each set of symbols that a Linux binary requires, such as `{ GLIBC: '2.17' }`.
 *
 * @param {string} binary
 */
async function symbolVersions(binary) {
  /** @type {Partial<Record<string, string>>} */
  const needed = {};
  for (const line of (await run('objdump', ['-T', binary])).split('\n')) {
    const [, set, version] = /\*UND\*.*\b(GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)/.exec(line) ?? [];
    if (set !== undefined && compare(version, needed[set] ?? '0') > 0) needed[set] = version;
  }
  return needed;
}

/**
 * The libraries that a binary names. Windows has no tool for this, but there a name is plain text that ends in .dll.
 *
 * @param {Target} target
 * @param {string} binary
 */
async function librariesOf({ platform }, binary) {
  const names =
    platform === 'win32'
      ? readFileSync(binary, 'latin1').matchAll(/([\w+.-]+\.dll)\0/gi)
      : (await run('objdump', ['-p', binary])).matchAll(/^\s*NEEDED\s+(\S+)/gm);
  return [...new Set([...names].map(([, name]) => name))];
}

/**
 * The requirements of a target's binary that exceed the limits: one line each. The limits apply to a binary that is
 * distributed. A binary only for this machine may need libraries of this machine.
 *
 * @param {Target} target
 * @param {string} binary
 */
export async function excessiveNeeds(target, binary) {
  if (target.platform === 'darwin') return [];
  if (target.platform === 'linux' && !target.musl) {
    const needed = await symbolVersions(binary);
    if (needed.GLIBC === undefined) return ['names no version of GLIBC: it is not linked as it should be'];
    return Object.entries(newest)
      .filter(([set, limit]) => compare(needed[set] ?? '0', limit) > 0)
      .map(([set, limit]) => `needs ${set}_${needed[set]}, more than ${set}_${limit}`);
  }
  const libraries = await librariesOf(target, binary);
  if (target.musl && !libraries.some((name) => name.startsWith('libc.')))
    return ['has a libc of its own inside'];
  return libraries
    .filter((name) => compilersOwn.test(name))
    .map((name) => `needs ${name}, which not every system has`);
}

/**
 * In words, for the table.
 *
 * @param {Target} target
 * @param {string} binary
 */
export async function describeNeeds(target, binary) {
  if (target.platform === 'darwin') return '';
  if (target.platform === 'win32' || target.musl) return (await librariesOf(target, binary)).join(' ');
  const needed = await symbolVersions(binary);
  return Object.entries(needed)
    .sort()
    .map(([set, version]) => `${set}_${version}`)
    .join(' ');
}
