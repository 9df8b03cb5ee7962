// Threads that mix blocking and pending acquisitions of one stripe. They count under the lock with a plain counter. Lost
// updates, timeouts, waits that are too long, and threads that get too little are violations.
//
//   --threads 8
//   --engine native|javascript   else the one that a lock chooses by itself

import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { StripedLock } from 'stripelock';
import { COUNTER, STOP } from './thread.mjs';

/** @typedef {import('./thread.mjs').Result} Result */

/**
 * Milliseconds. If there are more threads than processors, a thread may have no processor for some time slices when its
 * turn comes. So the machine may cause a wait of hundreds of milliseconds, but not one of seconds.
 */
const WORST_WAIT = 1000;
/** The least that a thread must get, of what it would get if all got the same. */
const LEAST_SHARE = 0.1;

/** @type {import('../run.mjs').Program['options']} */
export const options = { threads: { type: 'string', default: '8' }, engine: { type: 'string' } };

/** @type {import('../run.mjs').Program['play']} */
export async function play({ milliseconds, seed, violated }, values) {
  const threads = Number(values['threads']);
  const engine = values['engine'];
  if (engine !== undefined && engine !== 'native' && engine !== 'javascript') {
    throw new RangeError('--engine takes native or javascript');
  }
  const lock = new StripedLock({ stripes: 1, name: 'soak', ...(engine && { engine }) });
  const cells = new SharedArrayBuffer(8);
  console.log(`${threads} threads, 1 stripe, ${lock.engine} engine`);

  const results = await runThreads(lock, cells, { threads, milliseconds, seed });
  const shares = sharesOf(results);
  printResults(results, shares);
  const counted = Number(new Int32Array(cells)[COUNTER]);
  for (const violation of violationsIn(results, shares, counted, lock)) violated(violation);
}

/**
 * @param {StripedLock} lock
 * @param {SharedArrayBuffer} cells
 * @param {{ threads: number, milliseconds: number, seed: number }} settings
 * @returns {Promise<Result[]>}
 */
async function runThreads(lock, cells, { threads, milliseconds, seed }) {
  const gate = new SharedArrayBuffer(4);
  const workers = Array.from({ length: threads }, (_, i) => {
    return new Worker(new URL('thread.mjs', import.meta.url), {
      workerData: { handle: lock.handle, cells, gate, threads, seed: seed + i },
    });
  });
  const finished = Promise.all(workers.map(async (worker) => (await once(worker, 'message'))[0]));
  // The time counts from when all threads have started: on a busy machine that takes seconds.
  const arrived = new Int32Array(gate);
  while (Atomics.load(arrived, 0) < threads) await Promise.race([finished, delay(1)]);
  await Promise.race([finished, delay(milliseconds)]);
  Atomics.store(new Int32Array(cells), STOP, 1);
  return finished;
}

/** @param {readonly Result[]} results */
const acquisitionsOf = (results) => results.reduce((sum, { sync, async }) => sum + sync + async, 0);

/**
 * Each thread's part of what it would have got if all had got the same.
 *
 * @param {readonly Result[]} results
 */
function sharesOf(results) {
  const total = acquisitionsOf(results);
  return results.map(({ sync, async }) => ((sync + async) * results.length) / total);
}

/**
 * @param {readonly Result[]} results
 * @param {readonly number[]} shares
 * @param {number} counted
 * @param {StripedLock} lock
 */
function violationsIn(results, shares, counted, lock) {
  const total = acquisitionsOf(results);
  const timeouts = results.reduce((sum, result) => sum + result.timeouts, 0);
  const violations = [];
  if (counted !== total) violations.push(`${total - counted} of ${total} updates lost`);
  if (timeouts > 0) violations.push(`${timeouts} timeouts`);
  for (const [i, { worst }] of results.entries()) {
    const longest = Math.max(worst.sync, worst.async);
    const share = shares[i] ?? NaN;
    if (longest > WORST_WAIT) violations.push(`thread ${i} waited ${longest.toFixed(0)} ms`);
    if (!(share >= LEAST_SHARE)) violations.push(`thread ${i} got ${percent(share)} of its share`);
  }
  const { held, waiting, timeouts: counts, deadlocks, abandoned } = lock.stats();
  for (const [name, value] of Object.entries({ held, waiting, timeouts: counts, deadlocks, abandoned })) {
    if (value !== 0) violations.push(`stats().${name} is ${value} at the end`);
  }
  console.log(`${total} acquisitions, ${lock.stats().contended} of them waited, ${timeouts} timeouts`);
  return violations;
}

/** @param {number} share */
const percent = (share) => `${(100 * share).toFixed(0)} %`;

/**
 * @param {readonly Result[]} results
 * @param {readonly number[]} shares
 */
function printResults(results, shares) {
  console.log('thread      sync     async   share   worst wait, ms: sync   async');
  for (const [i, { sync, async, worst }] of results.entries()) {
    const columns = [String(i).padEnd(6), String(sync).padStart(9), String(async).padStart(9)];
    columns.push(percent(shares[i] ?? NaN).padStart(7), worst.sync.toFixed(1).padStart(22));
    columns.push(worst.async.toFixed(1).padStart(7));
    console.log(columns.join(' '));
  }
  console.log(`shares from ${percent(Math.min(...shares))} to ${percent(Math.max(...shares))}`);
}
