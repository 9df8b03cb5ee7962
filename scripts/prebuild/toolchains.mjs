// The compilers: their commands, their environments, and their options besides the flags of binding.gyp.

import { createHash } from 'node:crypto';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { cached, debianRoot, environmentFor, npmPackage } from './downloads.mjs';
import { run } from '../run.mjs';

/** @typedef {import('./targets.mjs').Target} Target */
/** @typedef {import('./build.mjs').Toolchain} Toolchain */

/**
 * GCC 10 of Debian 11: the oldest available one with C++20. A binary needs the symbols of the libraries that it is
 * linked with, and those of Debian 11 are old enough for every system that Node supports.
 */
const gnuSuite = 'bullseye';

/** @param {Pick<Target, 'arch' | 'cpu'>} target */
export function gnuRoot({ arch, cpu }) {
  const compiler = arch === 'x64' ? 'g++-10' : `g++-10-${cpu}-linux-gnu`;
  return debianRoot(compiler, { suite: gnuSuite, packages: [compiler], dependencies: true });
}

/**
 * @param {Target} target
 * @returns {Promise<Toolchain>}
 */
async function gnu(target) {
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

const mingwTriple = 'x86_64-w64-mingw32';

/**
 * Translates the libraries that binding.gyp names for Microsoft's linker to GCC's names. An import library replaces
 * Node's.
 *
 * @param {readonly string[]} link
 */
const librariesForGcc = (link) =>
  link
    .filter((word) => !/node\.lib/i.test(word))
    .map((word) => (/^-l.*\.lib$/i.test(word) ? word.replace(/\.lib$/i, '').toLowerCase() : word));

/**
 * An import library for Node's exports. They are loaded at first use, so that the hook can choose where from.
 *
 * @param {(name: string) => string} tool The path of one of the compiler's tools.
 * @param {NodeJS.ProcessEnv} env
 */
async function importLibrary(tool, env) {
  const headers = await npmPackage('node-api-headers');
  const folder = await cached(`${path.basename(headers)}-import`, async (unfinished) => {
    const exports = path.join(unfinished, 'node.def');
    // Each file begins with the host's name, which may appear only once.
    const definitions = ['js_native_api.def', 'node_api.def'].map((name) =>
      readFileSync(path.join(headers, 'def', name), 'utf8'),
    );
    const symbols = definitions.flatMap((text) =>
      text.split(/\s+/).filter((word) => /^(napi|node_api)_/.test(word)),
    );
    writeFileSync(exports, `NAME node.exe\nEXPORTS\n${[...new Set(symbols)].sort().join('\n')}\n`);
    await run(tool('dlltool'), ['-d', exports, '-y', path.join(unfinished, 'libnode.a')], { env });
  });
  return path.join(folder, 'libnode.a');
}

/** @returns {Promise<Toolchain>} */
async function mingw() {
  const root = await debianRoot('mingw', {
    suite: 'bookworm',
    packages: ['g++-mingw-w64-x86-64-posix'],
    dependencies: true,
  });
  const tool = (/** @type {string} */ name) => path.join(root, 'usr/bin', `${mingwTriple}-${name}`);
  const env = await environmentFor(root);
  const library = await importLibrary(tool, env);
  return {
    cxx: tool('g++-posix'),
    strip: tool('strip'),
    env,
    sources: [fileURLToPath(new URL('delay-load-hook.cc', import.meta.url))],
    compile: [],
    // Windows machines do not have GCC's own libraries.
    link: [library, '-static'],
    spelled: librariesForGcc,
    described: 'MinGW-w64 of Debian 12',
  };
}

// For musl: GCC 10 of Debian 11 with Debian's musl instead of glibc. Debian has no libstdc++ for musl, so the parts that
// the addon uses are built from Debian's GCC source and linked into the binary. The libstdc++ of a system with musl
// differs from release to release, and may be missing.

/** @type {Record<string, string>} */
const debianArchitecture = { x64: 'amd64', arm64: 'arm64' };

const muslRoot = (/** @type {Target} */ { arch }) => {
  const packages = ['musl', 'musl-dev'].map((name) => `${name}:${debianArchitecture[arch]}`);
  return debianRoot(`musl-${arch}`, { suite: gnuSuite, packages });
};

/**
 * GCC with musl, and the paths of its parts.
 *
 * @typedef {object} MuslGcc
 * @property {string} triple
 * @property {string} cpu
 * @property {(name: string) => string} tool The path of one of its programs.
 * @property {NodeJS.ProcessEnv} env For these.
 * @property {string} specs The file that replaces glibc with musl.
 * @property {string} libraries The folder with musl's start files and static library.
 * @property {string} loader musl itself, which is its own dynamic linker.
 * @property {string} itself The folder that has musl under the name that every system uses.
 */

/**
 * @param {Target} target
 * @returns {Promise<MuslGcc>}
 */
async function muslGcc(target) {
  const { cpu, arch } = target;
  const [gcc, musl] = [await gnuRoot(target), await muslRoot(target)];
  const triple = `${cpu}-linux-musl`;
  const place = {
    triple,
    tool: (/** @type {string} */ name) => path.join(gcc, 'usr/bin', `${cpu}-linux-gnu-${name}`),
    env: await environmentFor(gcc),
    headers: path.join(musl, 'usr/include', triple),
    libraries: path.join(musl, 'usr/lib', triple),
    loader: path.join(musl, 'lib', triple, 'libc.so'),
  };
  const folder = await cached(`${path.basename(musl)}-specs`, (unfinished) => {
    // glibc's folder of headers also has the kernel's, and only those are used.
    const [headers, asm] =
      arch === 'x64'
        ? ['usr/include', 'usr/include/x86_64-linux-gnu/asm']
        : [`usr/${cpu}-linux-gnu/include`, `usr/${cpu}-linux-gnu/include/asm`];
    const kernel = path.join(unfinished, 'kernel');
    mkdirSync(kernel);
    symlinkSync(path.join(gcc, headers, 'linux'), path.join(kernel, 'linux'));
    symlinkSync(path.join(gcc, headers, 'asm-generic'), path.join(kernel, 'asm-generic'));
    symlinkSync(path.join(gcc, asm), path.join(kernel, 'asm'));
    symlinkSync(place.loader, path.join(unfinished, `libc.musl-${cpu}.so.1`));
  });
  const specs = path.join(folder, 'specs');
  writeFileSync(specs, specsFor(place, path.join(folder, 'kernel'), cpu));
  return { ...place, specs, cpu, itself: folder };
}

/**
 * The same specs as in musl's own `musl-gcc`, with the headers of the kernel.
 *
 * @param {{ headers: string, libraries: string }} folders Of musl.
 * @param {string} kernel
 * @param {string} cpu
 */
const specsFor = ({ headers, libraries }, kernel, cpu) => `
%rename cpp_options old_cpp_options

*cpp_options:
-nostdinc -isystem ${headers} -isystem include%s -idirafter ${kernel} %(old_cpp_options)

*cc1:
%(cc1_cpu) -nostdinc -isystem ${headers} -isystem include%s -idirafter ${kernel}

*link_libgcc:
-L${libraries} -L .%s

*libgcc:
libgcc.a%s %:if-exists(libgcc_eh.a%s)

*startfile:
%{!shared: ${libraries}/Scrt1.o} ${libraries}/crti.o crtbeginS.o%s

*endfile:
crtendS.o%s ${libraries}/crtn.o

*link:
-dynamic-linker /lib/ld-musl-${cpu}.so.1 -nostdlib %{shared:-shared} %{static:-static} %{rdynamic:-export-dynamic}

*esp_link:


*esp_options:


*esp_cpp_options:


`;

const sourcesFor = (/** @type {Target} */ { arch }) =>
  arch === 'arm64' ? [fileURLToPath(new URL('getauxval.cc', import.meta.url))] : [];

/**
 * @param {Target} target
 * @returns {Promise<Toolchain>}
 */
async function musl(target) {
  const gcc = await muslGcc(target);
  const library = await libstdcxx(gcc);
  const folders = ['include', `include/${gcc.triple}`, 'libsupc++'];
  return {
    cxx: gcc.tool('g++-10'),
    strip: gcc.tool('strip'),
    env: gcc.env,
    sources: sourcesFor(target),
    compile: [
      `-specs=${gcc.specs}`,
      '-nostdinc++',
      ...folders.flatMap((folder) => ['-isystem', path.join(library, folder)]),
    ],
    link: [
      `-specs=${gcc.specs}`,
      '-nodefaultlibs',
      path.join(library, 'libstdc++.a'),
      ...muslItself(gcc),
      ...inside,
    ],
    described: 'GCC 10 of Debian 11, with its musl',
  };
}

/**
 * Links to musl by the name that it has on every system: where -lc looks, Debian has only the static library.
 *
 * @param {MuslGcc} gcc
 */
const muslItself = ({ itself, cpu }) => {
  const libc = [`-L${itself}`, `-l:libc.musl-${cpu}.so.1`];
  return [...libc, '-lgcc', '-lgcc_eh', ...libc];
};

/**
 * The symbols of the static libraries stay inside. A missing symbol makes the load fail, because musl binds all symbols
 * at once.
 */
const inside = ['-Wl,--exclude-libs,ALL', '-Wl,--gc-sections'];

/**
 * The files that run musl binaries on this machine: `linker`, and the folder `libraries` with a shared libstdc++. Only tests
 * use them: a binary contains its libstdc++.
 *
 * @param {Target} target
 */
export async function muslHostLibraries(target) {
  const gcc = await muslGcc(target);
  const library = await libstdcxx(gcc);
  const libraries = await cached(`${path.basename(library)}-shared`, (unfinished) => {
    const whole = ['-Wl,--whole-archive', path.join(library, 'libstdc++.a'), '-Wl,--no-whole-archive'];
    const later = fileURLToPath(new URL('later-libstdc++.cc', import.meta.url));
    const words = [
      `-specs=${gcc.specs}`,
      '-nostdinc++',
      '-shared',
      '-fPIC',
      '-nodefaultlibs',
      later,
      ...sourcesFor(target),
      ...whole,
    ];
    const output = [...muslItself(gcc), '-Wl,-z,defs', '-o', path.join(unfinished, 'libstdc++.so.6')];
    return run(gcc.tool('g++-10'), [...words, ...output], { env: gcc.env });
  });
  return { linker: gcc.loader, libraries };
}

/** The files of libstdc++ besides libsupc++. If one is missing, the binary does not load. */
const objects = {
  'c++98': 'allocator-inst atomicity list stdexcept tree'.split(' '),
  'c++11': (
    'chrono condition_variable cow-stdexcept cow-string-inst cxx11-stdexcept functexcept functional ' +
    'hashtable_c++0x mutex random snprintf_lite sso_string string-inst system_error thread'
  ).split(' '),
};

/**
 * A folder with libstdc++.a, include/ and libsupc++/, where its headers are.
 *
 * @param {MuslGcc} gcc
 */
function libstdcxx(gcc) {
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
  const options =
    '--build=x86_64-pc-linux-gnu --with-gxx-include-dir=/include --with-target-subdir= --disable-multilib ' +
    '--disable-shared --enable-static --with-pic --enable-threads=posix --disable-nls --disable-libstdcxx-pch ' +
    '--disable-libstdcxx-filesystem-ts --disable-libstdcxx-verbose CFLAGS=-O2';
  const words = [
    ...options.split(' '),
    `--host=${triple}`,
    `--prefix=${into}`,
    `CC=${tool('gcc-10')} -specs=${specs}`,
    `CXX=${tool('g++-10')} -specs=${specs} -nostdinc++`,
    'CXXFLAGS=-O2 -fPIC',
    ...['ar', 'as', 'ld', 'ranlib', 'strip'].map((name) => `${name.toUpperCase()}=${tool(name)}`),
  ];
  await run(path.join(work, 'libstdc++-v3/configure'), words, inBuild);
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
  // After the flags of binding.gyp, as make has them.
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
