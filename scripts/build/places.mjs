// Replaces the modules of lib/ that ask for their own place: in `dist/` each file has a fixed place in the package.

import path from 'node:path';

const BINARIES = path.join('engine', 'native', 'binaries.js');
/** The renewing thread's code. */
export const RENEWAL = 'renewal';
/** The module that finds this file. */
const WORKER_FILE = path.join('lease', 'worker-file.js');
/** The code that takes a profile of a whole program, and the module that finds it. */
export const PROGRAM = 'whole-program';
export const PROGRAM_FILE = path.join('profile', 'program-file.js');
/** Loads that file on request. */
export const PROGRAM_REQUEST = path.join('profile', 'requested.js');

/**
 * Replaces `binaries.ts`. A module of a test runner's registry is not an instance of the loader's class, and the loader of a
 * bundle, or of another runtime, may lack the properties that this code needs. The folder does not come from `__dirname`: tools that trace
 * files would take it for a folder to copy. The loaded module stays in the loader's cache, as with `require`, so that
 * a thread loads it once, by either way.
 */
const BINARIES_OF_PACKAGE = `
import path from 'node:path';
export function loaderByPath() {
  const { constructor: Module, filename } = module;
  const { cache, extensions } = require;
  const read = extensions?.['.node'];
  if (!cache || cache !== Module._cache || typeof read !== 'function' || cache[filename] !== module) return undefined;
  const load = (file) => {
    if (cache[file] !== undefined) return cache[file].exports;
    const loaded = new Module(file, module);
    loaded.filename = file;
    read(loaded, file);
    loaded.loaded = true;
    cache[file] = loaded;
    return loaded.exports;
  };
  return { folder: path.dirname(path.dirname(filename)), load };
}
export function binaries() {
  return require('../addon.cjs');
}
`;

/**
 * In place of `binaries.ts`, `worker-file.ts`, `program-file.ts` and `import.meta.url`.
 *
 * @type {import('rollup').Plugin}
 */
export const commonJsPlaces = {
  name: 'commonjs-places',
  load: {
    order: 'pre',
    handler(id) {
      if (id.endsWith(BINARIES)) return BINARIES_OF_PACKAGE;
      if (id.endsWith(WORKER_FILE))
        return `export function workerFile() {\n  return require.resolve('./${RENEWAL}.cjs');\n}\n`;
      if (!id.endsWith(PROGRAM_FILE)) return undefined;
      const from = `import { pathToFileURL } from 'node:url';\n`;
      return `${from}export function programFile() {\n  return pathToFileURL(require.resolve('./${PROGRAM}.cjs')).href;\n}\n`;
    },
  },
  resolveImportMeta: (property) => (property === 'url' ? '__filename' : undefined),
};

/**
 * A thread cannot run what has become part of a bundle. So it runs the file of the installed package.
 *
 * @type {import('rollup').Plugin}
 */
export const modulePlaces = {
  name: 'module-places',
  load: {
    order: 'pre',
    handler(id) {
      if (id.endsWith(PROGRAM_FILE)) {
        const url = `import { pathToFileURL } from 'node:url';\nimport { binaries } from '../engine/native/binaries.js';\n`;
        const file = `pathToFileURL(\`\${binaries().folder}/dist/${PROGRAM}.cjs\`).href`;
        return `${url}export function programFile() {\n  return ${file};\n}\n`;
      }
      if (!id.endsWith(WORKER_FILE)) return undefined;
      const from = path.posix.join('..', 'engine', 'native', 'binaries.js');
      const file = `\`\${binaries().folder}/dist/${RENEWAL}.cjs\``;
      return `import { binaries } from '${from}';\nexport function workerFile() {\n  return ${file};\n}\n`;
    },
  },
  // A bundler must leave out a file whose name is only known at run time.
  renderChunk: (code) => code.replaceAll(/\bimport\((?=\w)/g, 'import(/* webpackIgnore: true */ /* @vite-ignore */ '),
};
