// Takes permits of a KeyedLock in one of several ways, and counts who is inside. With `calledOnly`, no thread of the
// JavaScript engine checks for lost calls while the test runs: a waiter that is not called waits for ever.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
// Its modules one by one, because the test changes a number of one of them.
import { KeyedLock } from '../../unbundled/index.js';
import { patience } from '../../unbundled/engine/javascript/stripe-lines.js';
import { dawdle } from './dawdle.mjs';
import { mannersOf } from './manners.mjs';
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

// Blocking is one way of five, and so is an attempt. A third of what is pending gives up soon.
const next = () => ['block', 'attempt'][below(random, 5)] ?? 'pend';

const manners = mannersOf({
  done: () => done,
  rounds,
  block: () => use(lock.acquireSync(anyKeys())),
  attempt() {
    const guard = lock.tryAcquire(anyKeys());
    if (guard) use(guard);
  },
  wait,
  next,
  pend() {
    const timeout = below(random, 3) === 0 ? below(random, 2) : Infinity;
    return lock.acquire(anyKeys(), { timeout }).then(use, ignoreTimeout);
  },
});

meet(gate, threads);
await manners[manner]();
parentPort.postMessage(tooMany);
