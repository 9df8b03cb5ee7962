// Threads that mix blocking and pending acquisitions of one stripe, for a long time. They count under the lock with
// a plain counter. Ends with an error on lost updates, timeouts, waits that are too long, and threads that get too
// little.
//
//   node test/soak/mixed/program.mjs [--seconds 60] [--threads 8] [--engine native|javascript] [--seed N]

import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { StripedLock } from 'stripelock';
import { dawdle } from '../../workers/dawdle.mjs';
import { meet } from '../../workers/meet.mjs';
import { below, randomFrom } from '../../workers/random.mjs';

const [STOP, COUNTER] = [0, 1];
const MOST_PENDING = 4;
/** Steps of work under the lock: a few microseconds, so that the stripe is held most of the time. */
const SECTION = 3000;

/**
 * Milliseconds. Where there are more threads than processors, a thread may be without one for some time slices while
 * it is its turn: a wait of hundreds of milliseconds is the machine's doing, one of seconds is not.
 */
const WORST_WAIT = 1000;
/** The least that a thread must get, of what it would get if all got the same. */
const LEAST_SHARE = 0.1;

async function soakThread({ handle, cells, gate, threads, seed }) {
  const lock = StripedLock.from(handle);
  const state = new Int32Array(cells);
  const random = randomFrom(seed);
  const result = { sync: 0, async: 0, timeouts: 0, worst: { sync: 0, async: 0 } };

  const use = (guard, way, start) => {
    result.worst[way] = Math.max(result.worst[way], performance.now() - start);
    const value = state[COUNTER];
    dawdle(SECTION);
    state[COUNTER] = value + 1;
    result[way]++;
    guard.release();
  };
  const failed = (error) => {
    if (error.code !== 'ERR_LOCK_TIMEOUT') throw error;
    result.timeouts++;
  };
  const block = () => {
    const start = performance.now();
    try {
      use(lock.acquireSync('key'), 'sync', start);
    } catch (error) {
      failed(error);
    }
  };
  const wait = () => {
    const start = performance.now();
    return lock.acquire('key').then((guard) => use(guard, 'async', start), failed);
  };

  meet(gate, threads);
  let pending = [];
  while (Atomics.load(state, STOP) === 0) {
    if (random() < 0.25) {
      pending.push(wait());
      // What was granted meanwhile is used and released in this turn; to block while holding it would be a deadlock.
      await nextTurn();
    } else {
      block();
    }
    if (pending.length > below(random, MOST_PENDING)) {
      await Promise.all(pending);
      pending = [];
    }
  }
  await Promise.all(pending);
  parentPort.postMessage(result);
}

function violationsIn(results, counted, stats) {
  const done = results.map(({ sync, async }) => sync + async);
  const total = done.reduce((sum, own) => sum + own, 0);
  const shares = done.map((own) => (own * done.length) / total);
  const timeouts = results.reduce((sum, result) => sum + result.timeouts, 0);
  const violations = [];
  if (counted !== total) violations.push(`${total - counted} of ${total} updates lost`);
  if (timeouts > 0) violations.push(`${timeouts} timeouts`);
  for (const [i, { worst }] of results.entries()) {
    const longest = Math.max(worst.sync, worst.async);
    if (longest > WORST_WAIT) violations.push(`thread ${i} waited ${longest.toFixed(0)} ms`);
    if (!(shares[i] >= LEAST_SHARE)) violations.push(`thread ${i} got ${percent(shares[i])} of its share`);
  }
  for (const name of ['held', 'waiting', 'timeouts', 'deadlocks', 'abandoned']) {
    if (stats[name] !== 0) violations.push(`stats().${name} is ${stats[name]} at the end`);
  }
  return { violations, shares, total, timeouts };
}

function percent(share) {
  return `${(100 * share).toFixed(0)} %`;
}

async function main() {
  const { values } = parseArgs({
    options: {
      seconds: { type: 'string', default: '60' },
      threads: { type: 'string', default: '8' },
      engine: { type: 'string' },
      seed: { type: 'string', default: process.env['STRIPELOCK_SEED'] ?? String(randomInt(2 ** 31)) },
    },
  });
  const [seconds, threads, seed] = [values.seconds, values.threads, values.seed].map(Number);
  const lock = new StripedLock({ stripes: 1, name: 'soak', ...(values.engine && { engine: values.engine }) });
  const cells = new SharedArrayBuffer(8);
  const gate = new SharedArrayBuffer(4);
  console.log(`${threads} threads, 1 stripe, ${seconds} s, ${lock.engine} engine, STRIPELOCK_SEED=${seed}`);

  const workers = Array.from({ length: threads }, (_, i) => {
    return new Worker(new URL(import.meta.url), {
      workerData: { handle: lock.handle, cells, gate, threads, seed: seed + i },
    });
  });
  const finished = Promise.all(workers.map(async (worker) => (await once(worker, 'message'))[0]));
  // The time counts from when all are there: on a busy machine threads take seconds to start.
  const arrived = new Int32Array(gate);
  while (Atomics.load(arrived, 0) < threads) await Promise.race([finished, delay(1)]);
  await Promise.race([finished, delay(seconds * 1000)]);
  Atomics.store(new Int32Array(cells), STOP, 1);
  const results = await finished;

  const { violations, shares, total, timeouts } = violationsIn(
    results,
    new Int32Array(cells)[COUNTER],
    lock.stats(),
  );
  console.log('thread      sync     async   share   worst wait, ms: sync   async');
  for (const [i, result] of results.entries()) {
    const columns = [String(i).padEnd(6), String(result.sync).padStart(9), String(result.async).padStart(9)];
    columns.push(percent(shares[i]).padStart(7), result.worst.sync.toFixed(1).padStart(22));
    columns.push(result.worst.async.toFixed(1).padStart(7));
    console.log(columns.join(' '));
  }
  console.log(`${total} acquisitions, ${lock.stats().contended} of them waited, ${timeouts} timeouts`);
  console.log(`shares from ${percent(Math.min(...shares))} to ${percent(Math.max(...shares))}`);
  for (const violation of violations) console.error(`violation: ${violation}`);
  process.exitCode = violations.length === 0 ? 0 : 1;
}

await (isMainThread ? main() : soakThread(workerData));
