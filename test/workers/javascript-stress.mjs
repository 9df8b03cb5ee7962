// Acquisitions of the JavaScript engine in one of several ways, with plain counters. With `calledOnly`, no thread
// checks for lost calls while the test runs: a waiter that is not called waits for ever.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
// Its modules one by one, because the test changes a number of one of them.
import { StripedLock } from '../../unbundled/index.js';
import { patience } from '../../unbundled/engine/javascript/stripe-lines.js';
import { dawdle } from './dawdle.mjs';
import { mannersOf } from './manners.mjs';
import { meet } from './meet.mjs';
import { below, randomFrom } from './random.mjs';

const { handle, cells, gate, threads, manner, sharedPercent, mostKeys, rounds, calledOnly, seed } =
  workerData;
if (calledOnly) {
  for (const name of Object.keys(patience)) patience[name] = 3_600_000;
}
const lock = StripedLock.from(handle);
// Two for each stripe: a thread that sees them differ has read while another wrote.
const counters = new Int32Array(cells);
const random = randomFrom(seed);
const added = new Array(lock.stripes).fill(0);
let torn = 0;
let done = 0;
let longest = 0;

function use(guard) {
  for (const stripe of guard.stripes) {
    const value = counters[2 * stripe];
    if (guard.mode === 'shared') {
      dawdle(20);
    } else {
      counters[2 * stripe] = value + 1;
      dawdle(20);
      counters[2 * stripe + 1]++;
      added[stripe]++;
    }
    if (counters[2 * stripe] !== counters[2 * stripe + 1]) torn++;
  }
  done++;
}

function request() {
  const keys = Array.from({ length: 1 + below(random, mostKeys) }, () => below(random, 1e6));
  return [keys, { mode: below(random, 100) < sharedPercent ? 'shared' : 'exclusive' }];
}

function block() {
  const start = performance.now();
  const guard = lock.acquireSync(...request());
  longest = Math.max(longest, performance.now() - start);
  use(guard);
  guard.release();
}

async function wait(turnsHeld) {
  const start = performance.now();
  const guard = await lock.acquire(...request());
  longest = Math.max(longest, performance.now() - start);
  for (let i = 0; i < turnsHeld; i++) await nextTurn();
  use(guard);
  guard.release();
}

const manners = mannersOf({
  done: () => done,
  rounds,
  block,
  attempt() {
    const guard = lock.tryAcquire(...request());
    if (guard) use(guard);
    guard?.release();
  },
  wait,
  next: () => ['block', 'attempt', 'pend'][below(random, 3)],
  pend: () => wait(0),
});

meet(gate, threads);
await manners[manner]();
parentPort.postMessage({ manner, added, torn, done, longest });
