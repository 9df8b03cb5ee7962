// Bundles what ships, in memory, from the compiled modules of lib/:
//
//   stripelock.cjs           all of lib/ that no other bundle contains
//   stores.cjs               stores outside of the process
//   testing.cjs              what only tests use
//   locked-file.cjs          files that several programs change, and the package that finds a fault in JSON
//   contention.cjs           profiles of contention, and the package that writes them
//   whole-program.cjs        the same for a whole program, if an environment variable asks for it
//   <entry>.cjs, <entry>.mjs faces of these, one for each entry point and way to load it: all get the same classes
//   renewal.cjs              what the thread runs that renews leases in the background
//   command.cjs              the command `stripelock`, with only the code that a run under a lock file needs
//   command-stores.cjs       its subcommands that use a store
//   stripelock.d.cts         its declarations, with faces in the same way
//   esm/                     the same again as a module, for bundlers alone (the condition `module` in package.json)
//
// These are few files, because every file that a thread loads costs it some tenths of a millisecond, and because a
// name of another CommonJS file is a property that is looked up on each use. Stores are in a separate file: V8 reads each
// line at import, and a hundred thousand characters cost every thread 2 to 3 ms. Nothing is minified or renamed: the
// fast path is measured as it is written. Only the indentation is gone.
//
// The command runs in a separate process, and starts often. Reading all of lib/ would take most of its time. So its file
// contains a copy of the functions that it uses, and it loads the other files only for a store. It does not use Node's
// compile cache: Node 20 has none, and the cache would save 4 ms but write into a folder that users share.

import { readFileSync } from 'node:fs';
import path from 'node:path';

import { decode, encode } from '@jridgewell/sourcemap-codec';
import { rollup } from 'rollup';

import { packageRoot } from '../addon-inputs.mjs';
import { ALL, COMMAND, COMMAND_STORES, FILE, PROFILE, STORES, TESTING, entries, isOfStores } from './compile.mjs';
import { withoutIndentation } from './indentation.mjs';
import { PROGRAM, PROGRAM_FILE, PROGRAM_REQUEST, RENEWAL, commonJsPlaces, modulePlaces } from './places.mjs';
import { bundleTypes } from './types.mjs';

const NODE = '\0of node: ';
/** All of the entry point `profile`. */
const CONTENTION = 'contention';
/** All of the entry point `file`. */
const LOCKED_FILE = 'locked-file';
/** Where the packages are that become part of a bundle. */
const MODULES = path.join(packageRoot, 'node_modules');
/**
 * The files of these packages, by what lib/ imports.
 *
 * @type {Record<string, string>}
 */
const BUNDLED = {
  'jsonc-parser': 'jsonc-parser/lib/esm/impl/parser.js',
  'pprof-format': 'pprof-format/dist/esm/index.js',
};
const WORKER = path.join('lease', 'renewing-worker.js');

/**
 * Reads modules, and the maps of the compiler beside them, from memory.
 *
 * @param {string} folder
 * @param {ReadonlyMap<string, string>} files
 * @returns {import('rollup').Plugin}
 */
function compiled(folder, files) {
  return {
    name: 'compiled',
    resolveId(specifier, importer) {
      const bundled = BUNDLED[specifier];
      if (bundled !== undefined) return path.join(MODULES, bundled);
      if (!specifier.startsWith('.')) return importer === undefined ? specifier : undefined;
      const file = path.resolve(path.dirname(importer ?? folder), specifier);
      return path.extname(file) === '' ? `${file}.js` : file;
    },
    load(id) {
      if (id.startsWith(MODULES)) return readFileSync(id, 'utf8');
      const code = files.get(id);
      if (code === undefined) return undefined;
      return { code, map: files.get(`${id}.map`) };
    },
  };
}

/**
 * The names that lib/ imports from each of Node's modules.
 *
 * @param {ReadonlyMap<string, string>} files
 */
function namesOfNode(files) {
  /** @type {Map<string, Set<string>>} */
  const names = new Map();
  for (const [file, code] of files) {
    if (!file.endsWith('.js')) continue;
    for (const [, list, module] of code.matchAll(/^import [^'{]*(?:\{([^}]*)\} )?from '(node:[^']+)'/gm)) {
      const known = names.get(module) ?? new Set();
      for (const name of (list ?? '').split(',')) {
        const [imported] = name.trim().split(' as ');
        if (imported !== '') known.add(imported);
      }
      names.set(module, known);
    }
  }
  return names;
}

/**
 * Node's modules for CommonJS. A name that lib/ imports is read once, as in a module: if it stayed a property of what
 * `require` returns, each use would look it up, and would find what a test has put in its place.
 *
 * @param {ReadonlyMap<string, string>} files
 * @returns {import('rollup').Plugin}
 */
function nodeForCommonJs(files) {
  const names = namesOfNode(files);
  return {
    name: 'node-for-commonjs',
    resolveId: {
      order: 'pre',
      handler: (specifier) => (specifier.startsWith('node:') ? NODE + specifier : undefined),
    },
    load(id) {
      if (!id.startsWith(NODE)) return undefined;
      const module = id.slice(NODE.length);
      const list = [...(names.get(module) ?? [])].join(', ');
      return `const module_ = require('${module}');\nexport const { ${list} } = module_;\nexport default module_;\n`;
    },
  };
}

/**
 * A source map that leads to lines, and not to each word in them, which would make it five times as large.
 *
 * @param {string} text
 * @param {readonly number[]} removed How many columns each line of the code has lost since.
 */
function linesOnly(text, removed) {
  const map = JSON.parse(text);
  const lines = decode(map.mappings).map((line, at) => {
    let known = '';
    return line.flatMap(([column, source, original, start]) => {
      if (source === undefined || known === `${source} ${original}`) return [];
      known = `${source} ${original}`;
      const now = Math.max(0, column - (removed[at] ?? 0));
      return [/** @type {[number, number, number, number]} */ ([now, source, original, start])];
    });
  });
  // Without the sources, which would be an eighth of what an install may take: a frame names the file and the line.
  return JSON.stringify({ ...map, names: [], mappings: encode(lines), sourcesContent: undefined });
}

/**
 * The subcommands that use a store are in another file, which uses the classes that users get.
 *
 * @type {import('rollup').Plugin}
 */
const storesOfCommand = {
  name: 'stores-of-command',
  resolveId: {
    order: 'pre',
    handler: (specifier) =>
      specifier.endsWith(`/${COMMAND_STORES.module}.js`)
        ? { id: `./${COMMAND_STORES.file}.cjs`, external: 'relative' }
        : undefined,
  },
};

/**
 * The command, as one file, and its map.
 *
 * @param {string} folder Of the compiled modules.
 * @param {ReadonlyMap<string, string>} files
 * @param {string} to The folder.
 */
async function bundleCommand(folder, files, to) {
  const bundle = await rollup({
    input: { [COMMAND]: path.join(folder, COMMAND, 'main.js') },
    plugins: [storesOfCommand, nodeForCommonJs(files), commonJsPlaces, compiled(folder, files)],
    // A module of Node that no used function needs is not loaded.
    treeshake: { moduleSideEffects: (id) => !id.startsWith(NODE), propertyReadSideEffects: false },
    onLog: stop,
  });
  return outputOf(bundle, 'cjs', to, {});
}

/**
 * All of lib/ but the command as several files, and their maps.
 *
 * @param {string} folder Of the compiled modules.
 * @param {ReadonlyMap<string, string>} files
 * @param {'cjs' | 'esm'} format
 * @param {string} to The folder.
 */
async function bundleAs(folder, files, format, to) {
  const plugins = format === 'cjs' ? [nodeForCommonJs(files), commonJsPlaces] : [modulePlaces];
  const moduleOf = (/** @type {string} */ name) => path.join(folder, `${name}.js`);
  const bundle = await rollup({
    input: {
      [ALL]: moduleOf(ALL),
      [STORES]: moduleOf(STORES),
      [TESTING]: moduleOf(TESTING),
      [CONTENTION]: moduleOf(PROFILE),
      [LOCKED_FILE]: moduleOf(FILE),
      ...(format === 'cjs' && {
        [RENEWAL]: path.join(folder, WORKER),
        [PROGRAM]: moduleOf(`${PROFILE}/${PROGRAM}`),
        [COMMAND_STORES.file]: moduleOf(`${COMMAND}/${COMMAND_STORES.module}`),
      }),
    },
    external: format === 'cjs' ? [] : /^node:/,
    plugins: [...plugins, compiled(folder, files)],
    preserveEntrySignatures: 'allow-extension',
    treeshake: false,
    onLog: stop,
  });
  return outputOf(bundle, format, to, {
    manualChunks: (id) => {
      if (id.startsWith(path.join(folder, STORES)) || isOfStores(files.get(id) ?? '')) return STORES;
      if ([PROGRAM_FILE, PROGRAM_REQUEST].some((file) => id.endsWith(file))) return ALL;
      if (id.startsWith(path.join(folder, FILE)) || id.startsWith(path.join(MODULES, 'jsonc-parser'))) {
        return LOCKED_FILE;
      }
      if (id.startsWith(path.join(folder, PROFILE)) || id.startsWith(MODULES)) return CONTENTION;
      const alone = [TESTING, COMMAND].some((name) => id.startsWith(path.join(folder, name)));
      return alone || id.endsWith(WORKER) || id.startsWith(NODE) ? undefined : ALL;
    },
  });
}

/**
 * Fails the build for each message.
 *
 * @param {unknown} _level
 * @param {import('rollup').RollupLog} log
 */
function stop(_level, { code, id, message }) {
  // Old helpers of the compiler, which know what to do then.
  if (code === 'THIS_IS_UNDEFINED' && id?.startsWith(MODULES)) return;
  throw new Error(message);
}

/**
 * The files of a bundle.
 *
 * @param {import('rollup').RollupBuild} bundle
 * @param {'cjs' | 'esm'} format
 * @param {string} to The folder.
 * @param {import('rollup').OutputOptions} options
 */
async function outputOf(bundle, format, to, options) {
  const { output } = await bundle.generate({
    ...options,
    dir: to,
    format,
    entryFileNames: `[name].${format === 'cjs' ? 'cjs' : 'mjs'}`,
    exports: 'named',
    minifyInternalExports: false,
    hoistTransitiveImports: false,
    generatedCode: 'es2015',
    // The esm files have no map: a bundler makes its own.
    sourcemap: format === 'cjs',
  });
  await bundle.close();
  return output.flatMap((file) => {
    if (file.type !== 'chunk') return [];
    const { code, removed } = withoutIndentation(file.code);
    const place = path.join(to, file.fileName);
    const map = output.find(({ fileName }) => fileName === `${file.fileName}.map`);
    if (map?.type !== 'asset') return [{ file: place, text: code }];
    return [
      { file: place, text: code },
      { file: `${place}.map`, text: linesOnly(String(map.source), removed) },
    ];
  });
}

/**
 * The names that an entry point exports at run time.
 *
 * @param {string} text Of the compiled entry point, which only hands on what other modules export.
 */
const namesIn = (text) =>
  [...text.matchAll(/^export \{([^}]*)\} from '[^']+';$/gm)].flatMap(([, list]) =>
    list.split(',').flatMap((name) => name.trim() || []),
  );

/**
 * @param {string} text Of an entry point.
 * @param {string} file As the entry point imports it.
 */
const handedOnFrom = (text, file) =>
  text.replaceAll(/ from '[^']+';/g, ` from '${file}';`).replace(/^\/\/# sourceMappingURL.*\n?/m, '');

/**
 * The files of one entry point.
 *
 * @param {string} name
 * @param {string} code Compiled.
 * @param {string} types
 */
function facesOf(name, code, types) {
  const base = path.posix.basename(name);
  /** To the folder of all bundles, from the one of this entry point. */
  const up = '../'.repeat(name.split('/').length - 1) || './';
  const assignments = namesIn(code).map((each) => `exports.${each} = all.${each};\n`);
  const always = {
    [`${name}.mjs`]: `export { ${namesIn(code).join(', ')} } from './${base}.cjs';\n`,
    [`${name}.d.cts`]: handedOnFrom(types, `${up}${ALL}.cjs`),
    [`${name}.d.mts`]: `export * from './${base}.cjs';\n`,
  };
  if (name === TESTING) return always;
  const own = { [PROFILE]: CONTENTION, [FILE]: LOCKED_FILE }[name];
  const from = own ?? (isOfStores(code) ? STORES : ALL);
  return {
    ...always,
    [`${name}.cjs`]: `'use strict';\n\nconst all = require('${up}${from}.cjs');\n\n${assignments.join('')}`,
    [`esm/${name}.mjs`]: handedOnFrom(code, `${up}${from}.mjs`),
  };
}

/**
 * Everything that ships below `to`, by absolute path.
 *
 * @param {string} folder Of the compiled modules, on disk and in memory.
 * @param {ReadonlyMap<string, string>} files
 * @param {string} to
 */
export async function bundle(folder, files, to) {
  const textOf = (/** @type {string} */ name) => files.get(path.join(folder, name)) ?? '';
  const implementations = [
    ...(await bundleAs(folder, files, 'cjs', to)),
    ...(await bundleAs(folder, files, 'esm', path.join(to, 'esm'))),
    ...(await bundleCommand(folder, files, to)),
    { file: path.join(to, `${ALL}.d.cts`), text: await bundleTypes(path.join(folder, `${ALL}.d.ts`)) },
  ];
  const faces = entries.flatMap((name) =>
    Object.entries(facesOf(name, textOf(`${name}.js`), textOf(`${name}.d.ts`))).map(([file, text]) => ({
      file: path.join(to, file),
      text,
    })),
  );
  return new Map([...implementations, ...faces].map(({ file, text }) => [file, text]));
}
