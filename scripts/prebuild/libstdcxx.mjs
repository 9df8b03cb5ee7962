// Builds the parts of libstdc++ that the addon uses for musl, from Debian's GCC source.

import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { cached } from './cache.mjs';
import { debianRoot } from './debian.mjs';
import { gnuSuite } from './gnu.mjs';
import { run } from './run.mjs';

/** @typedef {import('./musl.mjs').MuslGcc} MuslGcc */

/** The files of libstdc++ besides libsupc++. If one is missing, the binary does not load. */
const objects = {
  'c++98': ['allocator-inst', 'atomicity', 'list', 'stdexcept', 'tree'],
  'c++11': [
    'chrono',
    'condition_variable',
    'cow-stdexcept',
    'cow-string-inst',
    'cxx11-stdexcept',
    'functexcept',
    'functional',
    'hashtable_c++0x',
    'mutex',
    'random',
    'snprintf_lite',
    'sso_string',
    'string-inst',
    'system_error',
    'thread',
  ],
};

/**
 * A folder with libstdc++.a, include/ and libsupc++/, where its headers are.
 *
 * @param {MuslGcc} gcc
 */
export function libstdcxx(gcc) {
  const choice = createHash('sha256').update(JSON.stringify(objects)).digest('hex').slice(0, 8);
  return cached(`libstdc++-${gcc.triple}-${choice}`, async (unfinished) => {
    const root = await debianRoot('gcc-source', { suite: gnuSuite, packages: ['gcc-10-source'] });
    const work = mkdtempSync(path.join(os.tmpdir(), 'stripelock-libstdc++-'));
    try {
      console.log(`   building libstdc++ for ${gcc.triple}; this takes some minutes, once`);
      await unpackSource(path.join(root, 'usr/src/gcc-10/gcc-10.2.0-dfsg.tar.xz'), work);
      await make(gcc, work, unfinished);
    } finally {
      rmSync(work, { recursive: true, force: true });
    }
  });
}

/**
 * @param {string} tarball
 * @param {string} work
 */
async function unpackSource(tarball, work) {
  const wanted = [
    ...['libstdc++-v3', 'libgcc', 'libiberty', 'include', 'config', 'gcc/BASE-VER', 'gcc/DATESTAMP'],
    ...['config-ml.in', 'config.guess', 'config.rpath', 'config.sub', 'depcomp', 'install-sh', 'ltmain.sh'],
    ...['missing', 'mkinstalldirs', 'move-if-change'],
  ].map((part) => `gcc-10.2.0/${part}`);
  const tests = '--exclude=gcc-10.2.0/libstdc++-v3/testsuite/*/*';
  await run('tar', ['-xJf', tarball, '-C', work, '--strip-components=1', tests, ...wanted]);
  // A complete build of GCC would have chosen it.
  symlinkSync('gthr-posix.h', path.join(work, 'libgcc/gthr-default.h'));
}

/**
 * @param {MuslGcc} gcc
 * @param {string} work The folder of the source.
 * @param {string} into
 */
async function make({ triple, tool, env, specs }, work, into) {
  const build = path.join(work, 'build');
  mkdirSync(build);
  const inBuild = { cwd: build, env };
  const cc = `${tool('gcc-10')} -specs=${specs}`;
  await run(
    path.join(work, 'libstdc++-v3/configure'),
    [
      ...['--build=x86_64-pc-linux-gnu', `--host=${triple}`, `--prefix=${into}`],
      ...[
        '--with-gxx-include-dir=/include',
        '--with-target-subdir=',
        '--disable-multilib',
        '--disable-shared',
      ],
      ...[
        '--enable-static',
        '--with-pic',
        '--enable-threads=posix',
        '--disable-nls',
        '--disable-libstdcxx-pch',
      ],
      ...['--disable-libstdcxx-filesystem-ts', '--disable-libstdcxx-verbose'],
      ...[
        `CC=${cc}`,
        `CXX=${tool('g++-10')} -specs=${specs} -nostdinc++`,
        'CFLAGS=-O2',
        'CXXFLAGS=-O2 -fPIC',
      ],
      ...['ar', 'as', 'ld', 'ranlib', 'strip'].map((name) => `${name.toUpperCase()}=${tool(name)}`),
    ],
    inBuild,
  );
  const jobs = `-j${os.availableParallelism()}`;
  await run('make', [jobs, '-C', 'include'], inBuild);
  await run('make', [jobs, '-C', 'libsupc++'], inBuild);
  for (const [folder, names] of Object.entries(objects)) {
    await run('make', [jobs, '-C', `src/${folder}`, ...names.map((name) => `${name}.lo`)], inBuild);
  }
  const members = ['libsupc++', ...Object.keys(objects).map((folder) => `src/${folder}`)].flatMap((folder) =>
    readdirSync(path.join(build, folder))
      .filter((name) => name.endsWith('.o'))
      .map((name) => path.join(build, folder, name)),
  );
  await run(tool('ar'), ['crs', path.join(into, 'libstdc++.a'), ...members], { env });
  // Links, some of which point back into the source.
  await run('cp', ['-rL', path.join(build, 'include'), path.join(into, 'include')]);
  await run('cp', ['-rL', path.join(work, 'libstdc++-v3/libsupc++'), path.join(into, 'libsupc++')]);
}
