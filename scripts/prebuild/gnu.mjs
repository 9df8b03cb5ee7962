// GCC for glibc.

import path from 'node:path';

import { debianRoot } from './debian.mjs';
import { environmentFor } from './tool-environment.mjs';

/**
 * GCC 10 of Debian 11: the oldest available one with C++20. A binary needs the symbols of the libraries that it is
 * linked with, and those of Debian 11 are old enough for every system that Node supports.
 */
export const gnuSuite = 'bullseye';

/** @param {Pick<import('./targets.mjs').Target, 'arch' | 'cpu'>} target */
export function gnuRoot({ arch, cpu }) {
  const compiler = arch === 'x64' ? 'g++-10' : `g++-10-${cpu}-linux-gnu`;
  return debianRoot(compiler, { suite: gnuSuite, packages: [compiler], dependencies: true });
}

/**
 * @param {import('./targets.mjs').Target} target
 * @returns {Promise<import('./build.mjs').Toolchain>}
 */
export async function gnu(target) {
  const root = await gnuRoot(target);
  const tool = (/** @type {string} */ name) => path.join(root, 'usr/bin', `${target.cpu}-linux-gnu-${name}`);
  return {
    cxx: tool('g++-10'),
    strip: tool('strip'),
    env: await environmentFor(root),
    compile: [`--sysroot=${root}`],
    link: [`--sysroot=${root}`],
    described: 'GCC 10 of Debian 11',
  };
}
