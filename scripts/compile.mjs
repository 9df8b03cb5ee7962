// Compiles the addon for this machine inside the installed package, where no prebuilt binary fits. The package's warning
// names this command.
//
//   node node_modules/stripelock/scripts/compile.mjs
//
// It works in a temporary folder: there npm fetches node-gyp and the headers that the addon needs, and only the finished
// binary comes back. It needs a C++20 compiler, make and Python 3, and npm.

import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { buildTools, packageRoot } from './addon-inputs.mjs';

const binary = path.join('build', 'Release', 'stripelock.node');

/**
 * @param {string} command
 * @param {readonly string[]} words
 * @param {string} cwd
 * @param {string} failure
 */
function run(command, words, cwd, failure) {
  const { status, error } = spawnSync(command, words, {
    cwd,
    stdio: 'inherit',
    // npm is a batch file on Windows.
    shell: process.platform === 'win32' && command === 'npm',
  });
  if (status !== 0) throw new Error(error ? `${failure}: ${error.message}` : failure);
}

/** @param {string} folder */
function stage(folder) {
  const { version, devDependencies } = JSON.parse(
    readFileSync(path.join(packageRoot, 'package.json'), 'utf8'),
  );
  const tools = buildTools.map((name) => [name, devDependencies[name]]);
  for (const part of ['native', 'scripts']) {
    cpSync(path.join(packageRoot, part), path.join(folder, part), { recursive: true });
  }
  // A package that npm makes of a checkout has it where the checkout has it.
  const gyp = ['native/binding.gyp', 'binding.gyp']
    .map((name) => path.join(packageRoot, name))
    .find(existsSync);
  if (gyp === undefined) throw new Error('the sources of the addon are not in this folder');
  copyFileSync(gyp, path.join(folder, 'binding.gyp'));
  const manifest = {
    name: 'stripelock-addon',
    version,
    private: true,
    dependencies: Object.fromEntries(tools),
  };
  writeFileSync(path.join(folder, 'package.json'), JSON.stringify(manifest));
}

/** @param {string} folder */
function compileIn(folder) {
  stage(folder);
  const quiet = ['--no-audit', '--no-fund', '--prefer-offline', '--no-package-lock', '--loglevel=error'];
  run(
    'npm',
    ['install', '--ignore-scripts', ...quiet],
    folder,
    'npm could not fetch node-gyp and the headers',
  );
  run(process.execPath, ['scripts/build-addon.mjs'], folder, 'the addon does not compile');
  const built = path.join(folder, binary);
  run(
    process.execPath,
    ['-e', 'require(process.argv[1])', built],
    folder,
    'the addon was compiled but does not load',
  );
  mkdirSync(path.join(packageRoot, path.dirname(binary)), { recursive: true });
  copyFileSync(built, path.join(packageRoot, binary));
}

const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-compile-'));
try {
  compileIn(folder);
  console.log(`stripelock: compiled ${path.join(packageRoot, binary)}`);
} catch (error) {
  console.error(`stripelock: ${/** @type {Error} */ (error).message}`);
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
