// Compiles lib/ to dist/. Afterwards dist/ contains the output of lib/ and nothing else.
//
//   node scripts/build-ts.mjs
//
// tsc itself never deletes files: modules that were deleted in lib/ would stay in dist/ and be packed. So the compiler
// writes to memory, and the script makes dist/ equal to that. It never empties dist/, because tests, lint and demos may
// be reading it at the same time: it replaces each changed file in one step, and leaves all others as they are. If lib/
// does not compile, dist/ does not change.

import { mkdirSync, readdirSync, readFileSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import ts from 'typescript';

import { packageRoot } from './addon-inputs.mjs';

/** @type {import('typescript').FormatDiagnosticsHost} */
const host = {
  getCanonicalFileName: (name) => name,
  getCurrentDirectory: () => packageRoot,
  getNewLine: () => '\n',
};

/** The output of lib/, by absolute path, and the compiler's diagnostics. */
function compile() {
  const { config, error } = ts.readConfigFile(path.join(packageRoot, 'tsconfig.json'), ts.sys.readFile);
  const { options, fileNames, errors } = ts.parseJsonConfigFileContent(config, ts.sys, packageRoot);
  const program = ts.createProgram({ rootNames: fileNames, options, configFileParsingDiagnostics: errors });
  /** @type {Map<string, string>} */
  const files = new Map();
  const { diagnostics } = program.emit(undefined, (name, text) => files.set(path.resolve(name), text));
  const wrong = [...(error ? [error] : []), ...ts.getPreEmitDiagnostics(program), ...diagnostics];
  return {
    folder: path.resolve(options.outDir ?? ''),
    files,
    wrong: ts.sortAndDeduplicateDiagnostics(wrong),
  };
}

/**
 * Replaces the file in one step, so that nobody reads half a file. The new file is written outside dist/, because
 * another build would delete it there.
 *
 * @param {string} file
 * @param {string} text
 */
function replace(file, text) {
  const fresh = path.join(packageRoot, `dist.${process.pid}`);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(fresh, text);
  renameSync(fresh, file);
}

/** @param {string} file */
function textOf(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

/**
 * Deletes all files below a folder except the given ones, and then folders that are empty.
 *
 * @param {string} folder
 * @param {ReadonlyMap<string, unknown>} files By absolute path.
 */
function deleteOthers(folder, files) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const name = path.join(folder, entry.name);
    if (entry.isDirectory()) deleteOthers(name, files);
    else if (!files.has(name)) rmSync(name, { force: true });
  }
  if (readdirSync(folder).length === 0) rmdirSync(folder);
}

const { folder, files, wrong } = compile();
if (wrong.length > 0) {
  console.log(ts.formatDiagnostics(wrong, host));
  process.exitCode = 1;
} else {
  for (const [file, text] of files) if (textOf(file) !== text) replace(file, text);
  deleteOthers(folder, files);
}
