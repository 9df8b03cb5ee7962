// Prepares drivers for the tests. Node 20 has no node:sqlite, so it needs the last better-sqlite3 that runs there,
// compiled here from the package's own sources. Later versions of Node need nothing.
//
//   node scripts/build-test-drivers.mjs

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

import { packageRoot } from './addon-inputs.mjs';
import { nodedirArguments } from './build-addon.mjs';

const require = createRequire(import.meta.url);
const folder = path.join(packageRoot, 'test', 'drivers', 'node20');
const driver = path.join(folder, 'node_modules', 'better-sqlite3');

/**
 * @param {string} command
 * @param {readonly string[]} args
 * @param {string} cwd
 * @param {import('node:child_process').SpawnSyncOptions} [options]
 */
function run(command, args, cwd, options) {
  const { status } = spawnSync(command, args, { cwd, stdio: 'inherit', ...options });
  return status === 0;
}

/** Loads it in a separate process: a binary for another Node may crash the process. */
const loads = () =>
  run(process.execPath, ['-e', 'new (require("better-sqlite3"))(":memory:")'], folder, { stdio: 'ignore' });

function build() {
  // Its own install script would download a binary.
  const installed =
    existsSync(driver) ||
    run('npm', ['ci', '--ignore-scripts', '--loglevel=error'], folder, {
      shell: process.platform === 'win32',
    });
  const gyp = require.resolve('node-gyp/bin/node-gyp.js');
  const options = ['--release', '--jobs=max', '--loglevel=error', ...nodedirArguments()];
  // To optimize SQLite takes a minute more, and its tests mostly wait.
  const env = { ...process.env, CFLAGS: '-O1 -w', CXXFLAGS: '-O1 -w' };
  return (
    installed &&
    run(process.execPath, [gyp, 'rebuild', ...options], driver, {
      env,
      stdio: ['ignore', 'ignore', 'inherit'],
    })
  );
}

if (Number(process.versions.node.split('.')[0]) < 22 && !loads()) {
  console.log('compiling better-sqlite3 for the tests on Node 20; this takes a minute, once');
  // The tests report what cannot run without it, and fail in CI.
  if (!build() || !loads()) console.error('better-sqlite3 could not be compiled');
}
