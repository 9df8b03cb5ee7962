// The compilers for Debian: what to call, with which options besides those of binding.gyp, and in which environment.

import { existsSync, readdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';

import { cached } from './cache.mjs';
import { debianRoot } from './debian.mjs';

/**
 * GCC 10 of Debian 11: the oldest in reach that has C++20. A binary needs the symbols of the libraries that it is linked
 * with, and those of Debian 11 are old enough for every system that Node supports.
 */
const gnuSuite = 'bullseye';

/** The libraries of the tools themselves; those of libc must be the machine's own. */
const toolLibraries = /^lib(bfd|ctf|gmp|isl|mpc|mpfr|opcodes|z|zstd)\b.*\.so/;

/** Where the tools of an unpacked root find one another and their libraries. */
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

export function gnuRoot({ arch, cpu }) {
  const compiler = arch === 'x64' ? 'g++-10' : `g++-10-${cpu}-linux-gnu`;
  return debianRoot(compiler, { suite: gnuSuite, packages: [compiler], dependencies: true });
}

async function gnu(target) {
  const root = await gnuRoot(target);
  const tool = (name) => path.join(root, 'usr/bin', `${target.cpu}-linux-gnu-${name}`);
  return {
    cxx: tool('g++-10'),
    strip: tool('strip'),
    env: await environmentFor(root),
    compile: [`--sysroot=${root}`],
    link: [`--sysroot=${root}`],
    described: 'GCC 10 of Debian 11',
  };
}

/** The compiler of this machine, as node-gyp chooses it. */
const system = (target) => ({
  cxx: process.env.CXX ?? 'c++',
  strip: process.env.STRIP ?? 'strip',
  env: process.env,
  compile: [],
  // What may be missing on a system with musl, and differs from release to release there.
  link: target.musl ? ['-static-libstdc++', '-static-libgcc'] : [],
  described: "this machine's compiler",
});

export function toolchainFor(target, { system: own }) {
  if (own) return system(target);
  return gnu(target);
}
