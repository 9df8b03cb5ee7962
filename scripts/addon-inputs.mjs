// The inputs of the addon, in one place: binding.gyp asks on the command line, build-addon.mjs imports.
//
//   node scripts/addon-inputs.mjs sources           what is compiled, one file a line, relative to the package
//   node scripts/addon-inputs.mjs include <package> an include directory, relative to the package
//   node scripts/addon-inputs.mjs werror            1 if warnings are to be errors, else 0

import { readdirSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const packageRoot = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const require = createRequire(import.meta.url);

/** The tools that compile the addon. Their versions are among the devDependencies. */
export const buildTools = ['node-addon-api', 'node-gyp', 'xxhash-addon'];

/** The compiled sources. Each includes all of a folder, as one translation unit. */
export const addonSources = ['native/core.cc', 'native/node.cc'];

/** Whether this module is the script that node was started with; links on the way to it do not count. */
export const isMain = (/** @type {string} */ moduleUrl) =>
  process.argv[1] !== undefined && realpathSync(process.argv[1]) === realpathSync(fileURLToPath(moduleUrl));

/** The files of the addon's own folders, relative, sorted, with forward slashes. */
const ownFiles = () =>
  ['native/core', 'native/node'].flatMap((folder) =>
    readdirSync(path.join(packageRoot, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.(cc|h)$/.test(name))
      .map((name) => `${folder}/${name.replaceAll('\\', '/')}`)
      .sort(),
  );

/**
 * Where the headers of a dependency are, wherever npm has put the package.
 *
 * @param {string} packageName
 */
export function includeDirOf(packageName) {
  const folder = path.dirname(require.resolve(`${packageName}/package.json`));
  return packageName === 'xxhash-addon' ? path.join(folder, 'xxHash') : folder;
}

export const warningsAreErrors = () => !['', '0', undefined].includes(process.env.STRIPELOCK_WERROR);

/** Every file whose contents decide what the addon is, as absolute paths. */
export function addonInputs() {
  const napi = includeDirOf('node-addon-api');
  return [
    ...[...addonSources, ...ownFiles()].map((file) => path.join(packageRoot, file)),
    path.join(packageRoot, 'binding.gyp'),
    fileURLToPath(import.meta.url),
    path.join(includeDirOf('xxhash-addon'), 'xxhash.h'),
    path.join(napi, 'napi.h'),
    path.join(napi, 'napi-inl.h'),
  ];
}

/** @param {string[]} words */
function answer([question, argument]) {
  if (question === 'sources') return addonSources.join('\n');
  // Relative if possible: gyp's makefiles break if an absolute path contains a space.
  if (question === 'include') return path.relative(packageRoot, includeDirOf(argument)).replaceAll('\\', '/');
  if (question === 'werror') return warningsAreErrors() ? '1' : '0';
  throw new Error(`addon-inputs: unknown question ${question}`);
}

if (isMain(import.meta.url)) {
  console.log(answer(process.argv.slice(2)));
}
