// Runs the vitest suite on several versions of Node with the existing binary. Builds nothing.
// The other versions come from the npm package `node`.
//
//   node scripts/test-versions.mjs [20 22 24 26 …] [--times N] [-- vitest arguments]

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';

import { packageRoot } from './addon-inputs.mjs';
import { addonPath } from './build-addon.mjs';

const defaultVersions = ['20', '22', '24', '26'];
// Arguments go through a shell on Windows, where npx is a batch file.
const npx = process.platform === 'win32' ? 'npx.cmd' : 'npx';

/**
 * @param {string} version
 * @param {readonly string[]} nodeArguments
 * @param {import('node:child_process').SpawnSyncOptions} options
 */
function onVersion(version, nodeArguments, options) {
  return spawnSync(npx, ['--yes', '--package', `node@${version}`, 'node', ...nodeArguments], {
    cwd: packageRoot,
    shell: process.platform === 'win32',
    ...options,
  });
}

function main() {
  const separator = process.argv.indexOf('--');
  const own = separator < 0 ? process.argv.slice(2) : process.argv.slice(2, separator);
  const vitestArguments = separator < 0 ? [] : process.argv.slice(separator + 1);
  const { values, positionals } = parseArgs({
    args: own,
    options: { times: { type: 'string', default: '1' } },
    allowPositionals: true,
  });
  const times = Number(values.times);
  if (!Number.isInteger(times) || times < 1) throw new RangeError(`--times ${values.times} is not a count`);
  const wrong = positionals.filter((version) => !/^\d+(\.\d+){0,2}$/.test(version));
  if (wrong.length > 0) throw new RangeError(`not a version of Node: ${wrong.join(', ')}`);
  if (!existsSync(addonPath)) throw new Error('no addon to test: run `npm run build` first');

  const lines = [];
  let failed = 0;
  for (const version of positionals.length > 0 ? positionals : defaultVersions) {
    const exact = String(
      onVersion(version, ['-p', 'process.version'], { encoding: 'utf8' }).stdout ?? '',
    ).trim();
    // A run on the wrong version would prove nothing.
    if (exact !== `v${version}` && !exact.startsWith(`v${version}.`)) {
      failed += 1;
      lines.push(`${version.padEnd(10)} could not be started`);
      continue;
    }
    let passes = 0;
    for (let round = 1; round <= times; round++) {
      console.log(`\n── Node ${exact}${times > 1 ? `, ${round} of ${times}` : ''}`);
      const command = ['node_modules/vitest/vitest.mjs', 'run', ...vitestArguments];
      if (onVersion(version, command, { stdio: 'inherit' }).status === 0) passes += 1;
    }
    failed += times - passes;
    lines.push(`${exact.padEnd(10)} ${passes} of ${times} passed`);
  }
  console.log(`\n${lines.join('\n')}`);
  process.exitCode = failed === 0 ? 0 : 1;
}

main();
