// For musl: GCC 10 of Debian 11 with Debian's musl in the place of glibc. Debian has no libstdc++ for musl, so the parts
// that are used are built from Debian's source of GCC, and linked into the binary: what a system with musl has differs
// from release to release, and may be nothing.

import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { cached } from './cache.mjs';
import { debianRoot } from './debian.mjs';
import { gnuRoot, gnuSuite } from './gnu.mjs';
import { run } from './run.mjs';
import { environmentFor } from './tool-environment.mjs';

const debianArchitecture = { x64: 'amd64', arm64: 'arm64' };

/** The files of libstdc++ besides libsupc++. Where one is missing the binary does not load. */
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

const muslRoot = ({ arch }) => {
  const packages = ['musl', 'musl-dev'].map((name) => `${name}:${debianArchitecture[arch]}`);
  return debianRoot(`musl-${arch}`, { suite: gnuSuite, packages });
};

/** GCC with musl: its command, and where all that belongs to it lies. */
async function muslGcc(target) {
  const { cpu, arch } = target;
  const [gcc, musl] = [await gnuRoot(target), await muslRoot(target)];
  const triple = `${cpu}-linux-musl`;
  const place = {
    triple,
    tool: (name) => path.join(gcc, 'usr/bin', `${cpu}-linux-gnu-${name}`),
    env: await environmentFor(gcc),
    headers: path.join(musl, 'usr/include', triple),
    libraries: path.join(musl, 'usr/lib', triple),
    loader: path.join(musl, 'lib', triple, 'libc.so'),
  };
  const folder = await cached(`${path.basename(musl)}-specs`, (unfinished) => {
    // Of glibc's folder of headers, those of the kernel.
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

/** What the specs of musl's own `musl-gcc` say, with the headers of the kernel. */
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

/** A folder with libstdc++.a and include/. */
function libstdcxx(target, gcc) {
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

async function unpackSource(tarball, work) {
  const wanted = [
    ...['libstdc++-v3', 'libgcc', 'libiberty', 'include', 'config', 'gcc/BASE-VER', 'gcc/DATESTAMP'],
    ...['config-ml.in', 'config.guess', 'config.rpath', 'config.sub', 'depcomp', 'install-sh', 'ltmain.sh'],
    ...['missing', 'mkinstalldirs', 'move-if-change'],
  ].map((part) => `gcc-10.2.0/${part}`);
  const tests = '--exclude=gcc-10.2.0/libstdc++-v3/testsuite/*/*';
  await run('tar', ['-xJf', tarball, '-C', work, '--strip-components=1', tests, ...wanted]);
  // The build of all of GCC would have chosen it.
  symlinkSync('gthr-posix.h', path.join(work, 'libgcc/gthr-default.h'));
}

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
  // Links, of which some lead back to the source.
  await run('cp', ['-rL', path.join(build, 'include'), path.join(into, 'include')]);
  await run('cp', ['-rL', path.join(work, 'libstdc++-v3/libsupc++'), path.join(into, 'libsupc++')]);
}

const sourcesFor = ({ arch }) =>
  arch === 'arm64' ? [fileURLToPath(new URL('getauxval.cc', import.meta.url))] : [];

export async function musl(target) {
  const gcc = await muslGcc(target);
  const library = await libstdcxx(target, gcc);
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

/** By the name that it has on every system: where -lc looks, Debian has the static one only. */
const muslItself = ({ itself, cpu }) => {
  const libc = [`-L${itself}`, `-l:libc.musl-${cpu}.so.1`];
  return [...libc, '-lgcc', '-lgcc_eh', ...libc];
};

/** The symbols of the static libraries stay inside. One that is nowhere fails the load: musl binds all at once. */
const inside = ['-Wl,--exclude-libs,ALL', '-Wl,--gc-sections'];

/**
 * What a host for musl needs here: `linker`, and the folder `libraries` with a shared libstdc++. It is for tests alone: a
 * binary has its own inside.
 */
export async function muslHostLibraries(target) {
  const gcc = await muslGcc(target);
  const library = await libstdcxx(target, gcc);
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
