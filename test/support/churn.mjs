// Hundreds or thousands of threads that use a lock, and end at random moments, each in one of several ways.

import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { StripedLock } from 'stripelock';
import {
  CELLS,
  FAILURES,
  FALSE_GRANTS,
  FIRST,
  SECOND,
  SECTIONS,
  STARTED,
  UNTOLD,
} from '../workers/churn-cells.mjs';
import { below, randomFrom } from '../workers/random.mjs';

const SCRIPT = new URL('../workers/churner.mjs', import.meta.url);
/** The ways in which a thread ends, and the exit code of each. */
const CODES = { terminate: 1, return: 0, throw: 1, exit: 7 };
/** @type {(keyof typeof CODES)[]} */
const ENDS = ['terminate', 'terminate', 'terminate', 'return', 'throw', 'exit'];
const STRIPES = 4;
/** Milliseconds within which a thread is told to end, counted from its first work or, for some, from its start. */
const LONGEST_LIFE = 100;
/** Milliseconds in which the main thread must get each stripe. It waits for one after the other. */
const PATIENCE = 20_000;
/** Stripes of each thread's own lock: 4 MiB. */
const OWN_STRIPES = 65_536;

/**
 * One key for each stripe, in their order.
 *
 * @param {StripedLock} lock
 */
function keysOf(lock) {
  /** @type {number[]} */
  const keys = [];
  for (let key = 0; keys.filter((own) => own !== undefined).length < STRIPES; key++) {
    keys[lock.stripeOf(key)] ??= key;
  }
  return keys;
}

/**
 * Runs a thread from its start to its end. Resolves to the violations.
 *
 * @param {{ lock: StripedLock, keys: number[], cells: SharedArrayBuffer, number: number, random: () => number }} task
 */
async function live({ lock, keys, cells, number, random }) {
  const end = ENDS[below(random, ENDS.length)];
  const milliseconds = below(random, LONGEST_LIFE);
  const worker = new Worker(SCRIPT, {
    workerData: {
      handle: lock.handle,
      extra: new StripedLock({ engine: 'native', stripes: OWN_STRIPES }).handle,
      cells,
      keys,
      number,
      seed: below(random, 2 ** 31),
      end,
      milliseconds,
    },
  });
  /** @type {Error[]} */
  const errors = [];
  worker.on('error', (/** @type {Error} */ error) => errors.push(error));
  const exit = new Promise((resolve) => worker.once('exit', resolve));
  if (end === 'terminate') {
    // Some are terminated while they start.
    if (random() < 0.7) await Promise.race([once(worker, 'message'), exit]);
    await delay(milliseconds);
    await worker.terminate();
  }
  const code = await exit;
  const meant = CODES[end];
  // A thread may find that its time is up before it starts to work, and then just returns. A thread that is terminated
  // before it began also ends with 0.
  const early = code === 0;
  const strange = errors.filter(({ message }) => !/on purpose/.test(message)).map(String);
  if (code !== meant && !early) strange.push(`${end} ended with code ${code}`);
  return strange;
}

/**
 * Keeps `atOnce` threads alive, one following the other, while `goesOn(number of threads started)`.
 * `violations` lists everything that was wrong.
 *
 * @param {{ seed: number, atOnce?: number, goesOn: (started: number) => boolean, onThread?: (started: number) => void }} settings
 */
export async function churn({ seed, atOnce = 6, goesOn, onThread = () => undefined }) {
  const random = randomFrom(seed);
  const lock = new StripedLock({ engine: 'native', stripes: STRIPES, name: 'churn' });
  const keys = keysOf(lock);
  const cells = new SharedArrayBuffer(4 * CELLS * STRIPES);
  const state = new Int32Array(cells);
  /** @type {string[]} */
  const violations = [];
  let started = 0;
  let over = false;

  const waiting = (async () => {
    const longest = { milliseconds: 0 };
    for (let i = 0; !over; i++) {
      const start = performance.now();
      try {
        const guard = await lock.acquire(keys[i % STRIPES], { timeout: PATIENCE });
        longest.milliseconds = Math.max(longest.milliseconds, performance.now() - start);
        // Repairs what a dead thread left, because the guard of the next holder is not abandoned.
        const at = guard.stripes[0] * CELLS;
        if (guard.abandoned) state.fill(0, at, at + SECOND + 1);
        else if (state[at + FIRST] !== state[at + SECOND]) violations.push('the main thread was not told');
        guard.release();
      } catch (error) {
        violations.push(`the main thread gave up: ${/** @type {Error} */ (error).message}`);
      }
      await delay(1);
    }
    return longest.milliseconds;
  })();

  const lane = async () => {
    while (goesOn(started)) {
      violations.push(...(await live({ lock, keys, cells, number: ++started, random })));
      onThread(started);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  over = true;
  const longestWait = await waiting;

  const sum = (/** @type {number} */ which) =>
    keys.reduce((total, _, i) => total + state[i * CELLS + which], 0);
  for (const [what, which] of Object.entries({ FALSE_GRANTS, UNTOLD, FAILURES })) {
    if (sum(which) !== 0) violations.push(`${what}: ${sum(which)}`);
  }
  const stats = lock.stats();
  for (const name of /** @type {const} */ (['held', 'waiting', 'timeouts', 'deadlocks'])) {
    if (stats[name] !== 0) violations.push(`stats().${name} is ${stats[name]} when all threads have ended`);
  }
  if (lock.inspect().length !== 0) violations.push(`left: ${JSON.stringify(lock.inspect())}`);
  if (!lock.tryAcquire(keys)) violations.push('a stripe is stuck');
  return {
    violations,
    threads: started,
    gotGoing: state[STARTED],
    sections: state[SECTIONS],
    abandoned: stats.abandoned,
    longestWait,
  };
}
