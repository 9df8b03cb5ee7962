// Compiles, links and strips one target with a compiler that takes GCC's options.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { inParallel, run } from './run.mjs';

/** Writes the stripped binary. `flags` are those of `addonFlags`. */
export async function build({ cxx, strip, env, compile, link, objects = [] }, flags, binary) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-prebuild-'));
  try {
    const object = (source) => path.join(folder, `${path.basename(source)}.o`);
    await inParallel(flags.sources, os.availableParallelism(), (source) =>
      run(cxx, [...compile, ...flags.compile, '-c', source, '-o', object(source)], { env }),
    );
    const linked = path.join(folder, 'stripelock.node');
    await run(
      cxx,
      ['-shared', ...flags.sources.map(object), ...objects, '-o', linked, ...flags.link, ...link],
      { env },
    );
    mkdirSync(path.dirname(binary), { recursive: true });
    await run(strip, ['-o', binary, linked], { env });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
