// Tells the programs of an unpacked root where to find each other and their libraries.

import { existsSync, readdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';

import { cached } from './cache.mjs';

/** The libraries of the tools themselves; those of libc must be the machine's own. */
const toolLibraries = /^lib(bfd|ctf|gmp|isl|mpc|mpfr|opcodes|z|zstd)\b.*\.so/;

/**
 * The environment for the programs of a root.
 *
 * @param {string} root
 * @param {RegExp} libraries Matches the names of those that they may take from there.
 * @returns {Promise<NodeJS.ProcessEnv>}
 */
export async function environmentFor(root, libraries = toolLibraries) {
  const folder = await cached(`${path.basename(root)}-libraries`, (unfinished) => {
    for (const place of ['lib/x86_64-linux-gnu', 'usr/lib/x86_64-linux-gnu'].map((each) =>
      path.join(root, each),
    )) {
      for (const name of existsSync(place) ? readdirSync(place) : []) {
        if (libraries.test(name) && !existsSync(path.join(unfinished, name))) {
          symlinkSync(path.join(place, name), path.join(unfinished, name));
        }
      }
    }
  });
  return {
    ...process.env,
    LC_ALL: 'C',
    PATH: `${path.join(root, 'usr/bin')}:${process.env.PATH}`,
    LD_LIBRARY_PATH: folder,
  };
}
