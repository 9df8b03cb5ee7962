// The scenes of a soak of locks. A scene runs until `goesOn()` is false, and then checks the final state.

import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { StripedLock } from 'stripelock';
import { churn as churnThreads } from '../../support/churn.mjs';
import { runCycles } from '../../support/cycles.mjs';
import { below } from '../../workers/random.mjs';
import { keys } from './keys.mjs';
import { permits } from './permits.mjs';
import { keysApart, runThread, sharedInts } from './threads.mjs';
import { webLocks } from './web-locks.mjs';

/**
 * The progress of a scene, for the log.
 *
 * @typedef {Record<string, any>} Counts
 *
 * @typedef {object} Context
 * @property {() => boolean} goesOn Whether to begin another round.
 * @property {SharedArrayBuffer} stop Its first integer is 1 when the time is up, for threads that check it themselves.
 * @property {() => number} random Numbers of its own, from the seed.
 * @property {StripedLock[]} locks The scene adds its locks, so that they are watched.
 * @property {Counts} counts
 *
 * @callback Scene
 * @param {Context} context
 * @returns {Promise<string[]>} Violations.
 */

/**
 * @param {Context} context
 * @param {string} name
 * @param {import('stripelock').StripedLockOptions} options
 */
function newLock({ locks }, name, options) {
  const lock = new StripedLock({ engine: 'native', name, ...options });
  locks.push(lock);
  return lock;
}

/**
 * The invariants of an unused lock.
 *
 * @param {StripedLock} lock
 * @param {Record<string, number>} [expected]
 */
function leftovers(lock, expected = {}) {
  /** @type {Record<string, unknown>} */
  const stats = { ...lock.stats() };
  const violations = [];
  for (const [what, value] of Object.entries({
    held: 0,
    waiting: 0,
    timeouts: 0,
    deadlocks: 0,
    ...expected,
  })) {
    if (stats[what] !== value) violations.push(`stats().${what} is ${stats[what]}, not ${value}`);
  }
  const left = lock.inspect();
  if (left.length > 0) violations.push(`still held or waited for: ${JSON.stringify(left)}`);
  return violations;
}

/**
 * @param {SharedArrayBuffer} cells
 * @param {...readonly number[]} added
 */
function lostUpdates(cells, ...added) {
  return [...new Int32Array(cells)].flatMap((value, i) => {
    const expected = added.reduce((sum, own) => sum + own[i], 0);
    return value === expected ? [] : [`counter ${i} is ${value}, not ${expected}`];
  });
}

/**
 * Threads that end at random moments.
 *
 * @type {Scene}
 */
async function churn({ goesOn, random, counts }) {
  const result = await churnThreads({
    seed: below(random, 2 ** 31),
    atOnce: 3,
    goesOn: (threads) => {
      counts.threads = threads;
      return goesOn();
    },
  });
  counts.abandoned = result.abandoned;
  counts.sections = result.sections;
  return result.violations;
}

/**
 * Nested acquisitions, blocking and not, in an order in which no deadlock is possible.
 *
 * @type {Scene}
 */
async function ordered(context) {
  const { random, stop, counts } = context;
  const lock = newLock(context, 'ordered', { stripes: 16, timeout: 30_000 });
  const keys = keysApart(lock, 8);
  const common = { handle: lock.handle, cells: sharedInts(8), gate: sharedInts(1), threads: 3, keys, stop };
  const results = await Promise.all(
    Array.from({ length: 3 }, () => runThread('ordered.mjs', { ...common, seed: below(random, 2 ** 31) })),
  );
  counts.acquisitions = results.reduce((sum, { acquisitions }) => sum + acquisitions, 0);
  const changed = results.reduce((sum, result) => sum + result.changed, 0);
  return [
    ...results.flatMap(({ failures }) => failures.map((/** @type {Error} */ { message }) => message)),
    ...(changed > 0 ? [`${changed} readers saw a change`] : []),
    ...lostUpdates(common.cells, ...results.map(({ added }) => added)),
    ...leftovers(lock),
  ];
}

/**
 * Grants, timeouts and aborts at about the same moment, and one thread that must get its turn all the same.
 *
 * @type {Scene}
 */
async function moments(context) {
  const { random, stop, counts } = context;
  const lock = newLock(context, 'moments', { stripes: 64 });
  const keys = keysApart(lock, 2);
  const common = { handle: lock.handle, cells: sharedInts(2), gate: sharedInts(1), threads: 3, keys, stop };
  const [patient, ...impatient] = await Promise.all([
    runThread('patient.mjs', common),
    ...[1, 2].map(() => runThread('coincide.mjs', { ...common, seed: below(random, 2 ** 31) })),
  ]);
  for (const what of ['granted', 'timeouts', 'aborts']) {
    counts[what] = impatient.reduce((sum, result) => sum + result[what], 0);
  }
  counts.waited = patient.reduce((/** @type {number} */ sum, /** @type {number} */ own) => sum + own, 0);
  const { timeouts } = counts;
  return [
    ...impatient.flatMap(({ others, refused }) => [...others, ...(refused ? [`${refused} refused`] : [])]),
    ...lostUpdates(common.cells, patient, ...impatient.map(({ added }) => added)),
    ...leftovers(lock, { timeouts, aborts: counts.aborts }),
  ];
}

/**
 * Cycles of blocked threads.
 *
 * @type {Scene}
 */
async function cycles(context) {
  const { goesOn, random, counts } = context;
  const locks = [1, 2].map((i) => newLock(context, `cycles ${i}`, { stripes: 64, timeout: Infinity }));
  const violations = [];
  const found = [];
  Object.assign(counts, { cycles: 0, refused: 0 });
  while (goesOn()) {
    const keys = keysApart(locks[0], [2, 2, 3, 4, 8][below(random, 5)]);
    const used = random() < 0.5 || keys.length % 2 === 1 ? [locks[0]] : locks;
    /** @type {Parameters<typeof runCycles>[4]} */
    const modes = random() < 0.3 ? { mode: 'shared' } : random() < 0.3 ? { wantedMode: 'shared' } : {};
    for (const cycle of await runCycles(runThread, used, keys, 5, modes)) {
      counts.cycles++;
      counts.refused += cycle.refused.length;
      found.push(cycle.found);
      if (cycle.refused.length !== 1) violations.push(`${cycle.refused.length} of a cycle refused`);
      if (cycle.refused.some(({ error }) => error.code !== 'ERR_LOCK_DEADLOCK')) {
        violations.push(`refused with ${cycle.refused[0].error.message}`);
      }
    }
  }
  const deadlocks = locks.reduce((sum, lock) => sum + lock.stats().deadlocks, 0);
  if (deadlocks !== counts.refused)
    violations.push(`${deadlocks} deadlocks counted, ${counts.refused} refused`);
  for (const lock of locks) violations.push(...leftovers(lock, { deadlocks: lock.stats().deadlocks }));
  return [...violations, ...countTimes('a cycle was found', found, counts, 'found')];
}

/**
 * Blocked threads that are terminated.
 *
 * @type {Scene}
 */
async function terminations(context) {
  const { goesOn, random, counts } = context;
  const lock = newLock(context, 'terminations', { stripes: 8, timeout: Infinity });
  const [own, wanted] = keysApart(lock, 2);
  const times = [];
  const violations = [];
  counts.terminated = 0;
  while (goesOn()) {
    const ours = lock.acquireSync(wanted);
    const worker = new Worker(new URL('../../workers/victim.mjs', import.meta.url), {
      workerData: {
        handle: lock.handle,
        holds: [{ keys: own, how: random() < 0.5 ? 'sync' : 'async' }],
        parked: { keys: wanted, mode: random() < 0.3 ? 'shared' : 'exclusive' },
      },
    });
    await once(worker, 'message');
    const waiting = lock.acquire(own);
    await delay(below(random, 40));
    const start = performance.now();
    await worker.terminate();
    times.push(performance.now() - start);
    const guard = await waiting;
    if (!guard.abandoned) violations.push('the next holder was not told');
    guard.release();
    ours.release();
    counts.terminated++;
  }
  return [...violations, ...leftovers(lock), ...countTimes('a blocked thread ended', times, counts, 'ended')];
}

/**
 * Guards that are released again and again, of a lock that is traced.
 *
 * @type {Scene}
 */
async function misuse(context) {
  const { goesOn, random, counts } = context;
  const lock = newLock(context, 'misuse', { stripes: 16, timeout: 30_000, trace: true });
  const keys = keysApart(lock, 3);
  const cells = sharedInts(3);
  const all = [];
  while (goesOn()) {
    const common = { handle: lock.handle, cells, gate: sharedInts(1), threads: 2, keys, rounds: 300 };
    const runs = [1, 2].map(() => runThread('misuse.mjs', { ...common, seed: below(random, 2 ** 31) }));
    all.push(...(await Promise.all(runs)));
    counts.threads = all.length;
  }
  return [...lostUpdates(cells, ...all), ...leftovers(lock)];
}

/**
 * Says how long something took, for people. No limit is checked: the scenes take the processors from each other, and what
 * is missed lasts until a timeout, which is infinite here. test/robustness has the limits.
 *
 * @param {string} what
 * @param {readonly number[]} times
 * @param {Counts} counts
 * @param {string} name
 * @returns {string[]} A violation if it never happened.
 */
function countTimes(what, times, counts, name) {
  if (times.length === 0) return [`never: ${what}`];
  const sorted = [...times].sort((a, b) => a - b);
  const median = sorted[times.length >> 1];
  counts[`${name} ms`] = `${median.toFixed(1)} (worst ${sorted[times.length - 1].toFixed(0)})`;
  return [];
}

/** @type {Record<string, Scene>} */
export const scenes = { churn, ordered, moments, cycles, terminations, misuse, keys, permits, webLocks };
