// One of the threads: see program.mjs.

import { setImmediate as nextTurn } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { StripedLock } from 'stripelock';
import { dawdle } from '../../workers/dawdle.mjs';
import { meet } from '../../workers/meet.mjs';
import { below, randomFrom } from '../../workers/random.mjs';

/** Words of the memory that the threads share. */
export const STOP = 0;
export const COUNTER = 1;

/**
 * @typedef {object} Result What one thread did.
 * @property {number} sync Acquisitions.
 * @property {number} async
 * @property {number} timeouts
 * @property {{ sync: number, async: number }} worst The longest wait, in milliseconds.
 */

/**
 * @typedef {object} Task
 * @property {import('stripelock').StripedLockHandle} handle
 * @property {SharedArrayBuffer} cells
 * @property {SharedArrayBuffer} gate
 * @property {number} threads
 * @property {number} seed
 */

const MOST_PENDING = 4;
/** Steps of work under the lock: a few microseconds, so that the stripe is held most of the time. */
const SECTION = 3000;

/**
 * @param {Task} task
 * @returns {Promise<Result>}
 */
async function soakThread({ handle, cells, gate, threads, seed }) {
  const lock = StripedLock.from(handle);
  const state = new Int32Array(cells);
  const random = randomFrom(seed);
  const result = { sync: 0, async: 0, timeouts: 0, worst: { sync: 0, async: 0 } };

  /**
   * @param {{ release(): void }} guard
   * @param {'sync' | 'async'} way
   * @param {number} start
   */
  const use = (guard, way, start) => {
    result.worst[way] = Math.max(result.worst[way], performance.now() - start);
    const value = Number(state[COUNTER]);
    dawdle(SECTION);
    state[COUNTER] = value + 1;
    result[way]++;
    guard.release();
  };
  /** @param {any} error */
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
  /** @type {Promise<void>[]} */
  let pending = [];
  while (Atomics.load(state, STOP) === 0) {
    if (random() < 0.25) {
      pending.push(wait());
      // Grants that arrived meanwhile are used and released in this turn. Blocking while holding them would be a
      // deadlock.
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
  return result;
}

// Not when program.mjs imports the words.
if (parentPort !== null && workerData?.gate !== undefined) {
  parentPort.postMessage(await soakThread(workerData));
}
