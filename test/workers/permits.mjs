// Takes permits of a KeyedLock in one of several ways, and counts who is inside. With `calledOnly`, no thread of the
// JavaScript engine checks for lost calls while the test runs: a waiter that is not called waits for ever.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
// Its modules one by one, because the test changes a number of one of them.
import { KeyedLock } from '../../unbundled/index.js';
import { patience } from '../../unbundled/engine/javascript/patience.js';
import { dawdle } from './dawdle.mjs';
import { meet } from './meet.mjs';
import { below, randomFrom } from './random.mjs';

const { handle, cells, gate, threads, manner, keys, mostKeys, rounds, calledOnly, seed } = workerData;
if (calledOnly) {
  for (const name of Object.keys(patience)) patience[name] = 3_600_000;
}
const lock = KeyedLock.from(handle);
// For each key, how many are inside.
const counts = new Int32Array(cells);
const random = randomFrom(seed);
let tooMany = 0;
let done = 0;

function enter(guard) {
  for (const key of new Set(guard.keys)) {
    if (Atomics.add(counts, key, 1) + 1 > lock.limit) tooMany++;
  }
}

function leave(guard) {
  for (const key of new Set(guard.keys)) Atomics.sub(counts, key, 1);
  done++;
  guard.release();
}

function use(guard) {
  enter(guard);
  dawdle(below(random, 200));
  leave(guard);
}

function ignoreTimeout(error) {
  if (error.code !== 'ERR_LOCK_TIMEOUT') throw error;
}

const anyKeys = () => Array.from({ length: 1 + below(random, mostKeys) }, () => below(random, keys));

async function wait(turnsHeld) {
  const guard = await lock.acquire(anyKeys());
  enter(guard);
  for (let i = 0; i < turnsHeld; i++) await nextTurn();
  leave(guard);
}

async function waitAgainAndAgain(turnsHeld) {
  while (done < rounds) {
    await wait(turnsHeld);
    if (done % 16 === 0) await nextTurn();
  }
}

const manners = {
  sync() {
    while (done < rounds) use(lock.acquireSync(anyKeys()));
  },
  async: () => Promise.all(Array.from({ length: 8 }, () => waitAgainAndAgain(0))),
  /** Keeps what it gets for some turns of the event loop. */
  keeping: () => Promise.all(Array.from({ length: 4 }, () => waitAgainAndAgain(2))),
  /** Blocks while its async acquisitions are pending, and gives some of these up. */
  async mixed() {
    let pending = [];
    while (done < rounds) {
      const way = below(random, 5);
      if (way === 0) {
        use(lock.acquireSync(anyKeys()));
      } else if (way === 1) {
        const guard = lock.tryAcquire(anyKeys());
        if (guard) use(guard);
      } else {
        const timeout = way === 2 ? below(random, 2) : Infinity;
        pending.push(lock.acquire(anyKeys(), { timeout }).then(use, ignoreTimeout));
        // A key that was free is used and released here. Blocking while holding it could be a deadlock.
        await nextTurn();
      }
      if (pending.length === 8) {
        await Promise.all(pending);
        pending = [];
      }
    }
    await Promise.all(pending);
  },
};

meet(gate, threads);
await manners[manner]();
parentPort.postMessage(tooMany);
