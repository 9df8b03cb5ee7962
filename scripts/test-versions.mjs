// Runs the vitest suite on several versions of Node with the existing binary. Builds nothing. Their exact numbers stand in
// test-hosts/hosts.mjs.
//
//   node scripts/test-versions.mjs [20 22 24 26] [--times N] [-- vitest arguments]

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';

import { packageRoot } from './addon-inputs.mjs';
import { addonPath } from './build-addon.mjs';
import { commandOf, hosts } from './test-hosts/hosts.mjs';

const [own, vitestArguments] = splitAtDashes(process.argv.slice(2));
const { values, positionals } = parseArgs({
  args: own,
  options: { times: { type: 'string', default: '1' } },
  allowPositionals: true,
});
const times = Number(values.times);
if (!Number.isInteger(times) || times < 1) throw new RangeError(`--times ${values.times} is not a count`);
const versions = hosts.filter(({ kind }) => kind === 'node');
const unknown = positionals.filter((wanted) => !versions.some(({ name }) => name === `Node ${wanted}`));
if (unknown.length > 0) throw new RangeError(`not a version of hosts.mjs: ${unknown.join(', ')}`);
if (!existsSync(addonPath)) throw new Error('no addon to test: run `npm run build` first');

const lines = [];
for (const host of versions) {
  if (positionals.length > 0 && !positionals.includes(host.name.slice('Node '.length))) continue;
  const [node] = await commandOf(host);
  let passes = 0;
  for (let round = 1; round <= times; round++) {
    console.log(`\n── ${host.name}${times > 1 ? `, ${round} of ${times}` : ''}`);
    const command = ['node_modules/vitest/vitest.mjs', 'run', ...vitestArguments];
    if (spawnSync(node, command, { cwd: packageRoot, stdio: 'inherit' }).status === 0) passes += 1;
  }
  if (passes < times) process.exitCode = 1;
  lines.push(`${host.version.padEnd(10)} ${passes} of ${times} passed`);
}
console.log(`\n${lines.join('\n')}`);

/** @param {readonly string[]} words */
function splitAtDashes(words) {
  const separator = words.includes('--') ? words.indexOf('--') : words.length;
  return [words.slice(0, separator), words.slice(separator + 1)];
}
