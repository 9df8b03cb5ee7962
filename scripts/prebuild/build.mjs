// Compiles, links and strips one target with a compiler that takes GCC's options.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { inParallel, run } from './run.mjs';

/**
 * What to call, and what to add to the flags of binding.gyp.
 *
 * @typedef {object} Toolchain
 * @property {string} described For the log.
 * @property {string} cxx The command of the compiler.
 * @property {string} strip The command that strips.
 * @property {NodeJS.ProcessEnv} env Of both.
 * @property {readonly string[]} compile Options before those of binding.gyp.
 * @property {readonly string[]} [last] Options after those of binding.gyp.
 * @property {readonly string[]} link Options and libraries after those of binding.gyp.
 * @property {readonly string[]} [sources] Files that are compiled with those of the addon.
 * @property {(words: readonly string[]) => readonly string[]} [spelled] What binding.gyp tells the linker, as this one
 *   spells it.
 */

/**
 * Writes the stripped binary.
 *
 * @param {Toolchain} toolchain
 * @param {import('./flags.mjs').AddonFlags} flags
 * @param {string} binary
 */
export async function build(toolchain, flags, binary) {
  const { cxx, strip, env, compile, link, last = [], sources = [], spelled = (words) => words } = toolchain;
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-prebuild-'));
  try {
    const objects = new Map(
      [...flags.sources, ...sources].map((source) => [
        source,
        // With its folder, as files in different folders may have one name.
        path.join(folder, `${path.basename(path.dirname(source))}-${path.basename(source)}.o`),
      ]),
    );
    await inParallel(objects, os.availableParallelism(), ([source, object]) =>
      run(cxx, [...compile, ...flags.compile, ...last, '-c', source, '-o', object], { env }),
    );
    const linked = path.join(folder, 'stripelock.node');
    await run(cxx, ['-shared', ...objects.values(), '-o', linked, ...spelled(flags.link), ...link], { env });
    mkdirSync(path.dirname(binary), { recursive: true });
    await run(strip, ['-o', binary, linked], { env });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
