// Programs that run for the requested time. If a promise was broken, they end with an error that names it.
//
//   node test/soak/run.mjs locks [--minutes 1] [--seed N] [--scenes churn,cycles]
//   node test/soak/run.mjs faults [--minutes 1] [--seed N] [--store redis,sqlite] [--only paused] [--random] [--history folder]
//                                 [--plant plain-counter]
//   node test/soak/run.mjs processes [--minutes 1] [--seed N] [--processes 6] [--history] [--damage page]
//   node test/soak/run.mjs files [--minutes 1] [--seed N]
//
// The seed decides what is random in a program, not what the scheduler does. Each program's file says what it does.

import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';

/**
 * @typedef {object} Run What a program is asked for.
 * @property {number} milliseconds
 * @property {number} seed
 * @property {(what: string) => void} violated To be called for each broken promise.
 */

/**
 * @typedef {object} Program
 * @property {Record<string, { type: 'string' | 'boolean', default?: string }>} options Of its own, see `parseArgs`.
 * @property {(run: Run, values: Record<string, any>) => Promise<void>} play
 */

/** @type {Record<string, () => Promise<Program>>} */
const programs = {
  locks: () => import('./locks/program.mjs'),
  faults: () => import('./faults/program.mjs'),
  processes: () => import('./processes/program.mjs'),
  files: () => import('./files/program.mjs'),
};

const [name = '', ...args] = process.argv.slice(2);
const load = programs[name];
if (load === undefined) throw new RangeError(`name a program: ${Object.keys(programs).join(', ')}`);
const { options, play } = await load();
const { values } = parseArgs({
  args,
  options: {
    minutes: { type: 'string', default: '1' },
    seed: { type: 'string', default: process.env['STRIPELOCK_SEED'] ?? String(randomInt(2 ** 31)) },
    ...options,
  },
});
const milliseconds = Number(values.minutes) * 60_000;
const seed = Number(values.seed);
if (!(milliseconds > 0) || !Number.isInteger(seed)) {
  throw new RangeError('--minutes takes a number above 0, --seed an integer');
}
console.log(`${name} for ${values.minutes} minutes, STRIPELOCK_SEED=${seed}`);

let violations = 0;
/** @param {string} what */
function violated(what) {
  violations++;
  console.error(`violation: ${what}`);
}
await play({ milliseconds, seed, violated }, values);
console.log(violations === 0 ? 'no violations' : `${violations} violations`);
process.exitCode = violations === 0 ? 0 : 1;
