// Compiles, links and strips one target with a compiler that takes GCC's options.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { inParallel, run } from './run.mjs';

/**
 * Writes the stripped binary. `flags` are those of `addonFlags`. A toolchain says what to call, what to add, and how it
 * spells what binding.gyp tells the linker.
 */
export async function build(toolchain, flags, binary) {
  const { cxx, strip, env, compile, link, last = [], sources = [], spelled = (words) => words } = toolchain;
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-prebuild-'));
  try {
    const objects = new Map(
      [...flags.sources, ...sources].map((source) => [
        source,
        path.join(folder, `${path.basename(source)}.o`),
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
