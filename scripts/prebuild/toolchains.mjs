// The compilers for Debian: what to call, with which options besides those of binding.gyp, and in which environment.

import { gnu } from './gnu.mjs';
import { mingw } from './mingw.mjs';
import { musl } from './musl.mjs';

/** @typedef {import('./targets.mjs').Target} Target */
/** @typedef {import('./build.mjs').Toolchain} Toolchain */

/**
 * The compiler of this machine, as node-gyp chooses it.
 *
 * @param {Target} target
 * @returns {Toolchain}
 */
const system = (target) => ({
  cxx: process.env.CXX ?? 'c++',
  strip: process.env.STRIP ?? 'strip',
  env: process.env,
  compile: [],
  // After those of binding.gyp, as make would have them.
  last: (process.env.CXXFLAGS ?? '').split(' ').filter(Boolean),
  // Libraries that may be missing on a system with musl, and that differ from release to release there.
  link: target.musl ? ['-static-libstdc++', '-static-libgcc'] : [],
  described: "this machine's compiler",
});

/**
 * @param {Target} target
 * @param {{ system: boolean }} options Whether to use the compiler of this machine.
 * @returns {Toolchain | Promise<Toolchain>}
 */
export function toolchainFor(target, { system: own }) {
  if (own) return system(target);
  if (target.platform === 'win32') return mingw();
  return target.musl ? musl(target) : gnu(target);
}
