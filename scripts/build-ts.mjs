// Compiles lib/ to unbundled/, one file for each module, and bundles that to dist/, which ships. Afterwards both folders
// contain the output of lib/ and nothing else. If lib/ does not compile, neither changes. Does nothing where both are
// what the same inputs gave before.
//
//   node scripts/build-ts.mjs
//
// Tests use dist/, as users do. Those that look at one module import it from unbundled/.

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { packageRoot } from './addon-inputs.mjs';

/** The inputs of the build. The last one lists the installed versions of the tools. */
const INPUTS = [
  'lib',
  'scripts/build',
  'scripts/build-ts.mjs',
  'package.json',
  'tsconfig.json',
  'node_modules/.package-lock.json',
];
const OUTPUTS = ['dist', 'unbundled'];
const stamp = path.join(packageRoot, 'build', 'typescript.stamp');

/**
 * A digest of contents, not times, of files and of all that folders contain.
 *
 * @param {readonly string[]} places
 */
function digestOf(places) {
  const hash = createHash('sha256');
  const add = (/** @type {string} */ place) => {
    const file = path.join(packageRoot, place);
    hash.update(`${place}\n`);
    if (!existsSync(file)) return;
    if (!statSync(file).isDirectory()) hash.update(readFileSync(file));
    else for (const name of readdirSync(file).sort()) add(path.posix.join(place, name));
  };
  for (const place of places) add(place);
  return hash.digest('hex');
}

// Taken before the build: what changes meanwhile has not been compiled.
const inputs = digestOf(INPUTS);
const finished = () => `${inputs} ${digestOf(OUTPUTS)}`;
if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== finished()) {
  const { bundle } = await import('./build/bundle.mjs');
  const { compile } = await import('./build/compile.mjs');
  const { makeEqual } = await import('./build/files.mjs');
  const { folder, files, wrong } = compile();
  if (wrong !== '') {
    console.log(wrong);
    process.exitCode = 1;
  } else {
    makeEqual(folder, files);
    const dist = path.join(packageRoot, 'dist');
    makeEqual(dist, await bundle(folder, files, dist));
    mkdirSync(path.dirname(stamp), { recursive: true });
    writeFileSync(stamp, finished());
  }
}
