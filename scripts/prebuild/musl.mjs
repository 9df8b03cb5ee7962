// For musl: GCC 10 of Debian 11 with Debian's musl instead of glibc. Debian has no libstdc++ for musl, so the parts
// that the addon uses are built from Debian's GCC source and linked into the binary. The libstdc++ of a system with
// musl differs from release to release, and may be missing.

import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { cached } from './cache.mjs';
import { debianRoot } from './debian.mjs';
import { gnuRoot, gnuSuite } from './gnu.mjs';
import { libstdcxx } from './libstdcxx.mjs';
import { run } from './run.mjs';
import { environmentFor } from './tool-environment.mjs';

/** @typedef {import('./targets.mjs').Target} Target */

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
    // From glibc's folder of headers, only those of the kernel.
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
 * @returns {Promise<import('./build.mjs').Toolchain>}
 */
export async function musl(target) {
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
 * What a host for musl needs here: `linker`, and the folder `libraries` with a shared libstdc++. This is only for
 * tests: a binary contains its own.
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
