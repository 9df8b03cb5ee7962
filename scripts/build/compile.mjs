// Compiles lib/ in memory.

import { readFileSync } from 'node:fs';
import path from 'node:path';

import ts from 'typescript';

import { packageRoot } from '../addon-inputs.mjs';

const manifest = JSON.parse(readFileSync(path.join(packageRoot, 'package.json'), 'utf8'));

/** The entry points, as paths in lib/: what `exports` of package.json names. */
export const entries = Object.keys(manifest.exports)
  .filter((name) => name !== './package.json')
  .map((name) => (name === '.' ? 'index' : name.slice('./'.length)));

/** The entry point that only users' tests load. */
export const TESTING = 'testing';

/** The entry point and the folder that only programs load which look where they wait. */
export const PROFILE = 'profile';

/** The entry point and the folder of files that several programs change, which few programs load. */
export const FILE = 'file';

/** The folder of the command, and its file in `dist/`. */
export const COMMAND = 'command';

/** The module of the command's subcommands that use a store, in its folder, and their file in `dist/`. */
export const COMMAND_STORES = { module: 'with-store', file: 'command-stores' };

/** The module that exports what the entry points for stores export. */
export const STORES = 'stores';

/** The module that exports what all others export. Declarations of all entry points are in its own. */
export const ALL = 'stripelock';

/**
 * Whether an entry point is one for a store.
 *
 * @param {string} code Compiled.
 */
export const isOfStores = (code) => code.includes(" from './stores/");

/** @type {import('typescript').FormatDiagnosticsHost} */
const host = {
  getCanonicalFileName: (name) => name,
  getCurrentDirectory: () => packageRoot,
  getNewLine: () => '\n',
};

/**
 * The output of lib/ by absolute path: a file for each module, and files that join several. `wrong` has the compiler's
 * messages, and is empty if there are none.
 *
 * @returns {{ folder: string, files: Map<string, string>, wrong: string }}
 */
export function compile() {
  const { config, error } = ts.readConfigFile(path.join(packageRoot, 'tsconfig.json'), ts.sys.readFile);
  const { options, fileNames, errors } = ts.parseJsonConfigFileContent(config, ts.sys, packageRoot);
  const program = ts.createProgram({ rootNames: fileNames, options, configFileParsingDiagnostics: errors });
  /** @type {Map<string, string>} */
  const files = new Map();
  const write = (/** @type {string} */ name, /** @type {string} */ text) => files.set(path.resolve(name), text);
  // Comments belong into the declarations. In the code, which is not read, they would be half of the package. When all
  // modules are compiled together, the numbers of a const enum are inlined.
  const whole = { isolatedModules: false, verbatimModuleSyntax: false };
  const bare = ts.createProgram({
    rootNames: fileNames,
    options: { ...options, ...whole, removeComments: true, declaration: false, noCheck: true },
    oldProgram: program,
  });
  bare.emit(undefined, write);
  const { diagnostics } = program.emit(undefined, write, undefined, true);
  const folder = path.resolve(options.outDir ?? '');
  const codeOf = (/** @type {string} */ name) => files.get(path.join(folder, `${name}.js`)) ?? '';
  const joined = (/** @type {string[]} */ names) => names.map((name) => `export * from './${name}.js';\n`).join('');
  const stores = entries.filter((name) => isOfStores(codeOf(name)));
  const alone = [TESTING, PROFILE, FILE];
  const others = entries.filter((name) => !stores.includes(name) && !alone.includes(name));
  files.set(path.join(folder, `${STORES}.js`), joined(stores));
  files.set(path.join(folder, `${ALL}.js`), joined(others));
  files.set(path.join(folder, `${ALL}.d.ts`), joined(entries));
  const wrong = [...(error ? [error] : []), ...ts.getPreEmitDiagnostics(program), ...diagnostics];
  return {
    folder,
    files,
    wrong: ts.formatDiagnostics(ts.sortAndDeduplicateDiagnostics(wrong), host),
  };
}
