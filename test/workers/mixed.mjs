// Adds one to plain counters, one for each stripe, while it holds a key of the stripe: by acquireSync, by tryAcquire,
// and by acquire with several acquisitions pending at once, also while acquireSync blocks the thread.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { dawdle } from './dawdle.mjs';
import { lockFrom } from './lock-from.mjs';
import { meet } from './meet.mjs';
import { below, randomFrom } from './random.mjs';

const MOST_PENDING = 8;
const { handle, cells, gate, threads, keyCount, rounds, seed } = workerData;
const lock = lockFrom(handle);
const counters = new Int32Array(cells);
const random = randomFrom(seed);
const ways = { sync: 0, try: 0, async: 0 };
let added = 0;

function bumpAndRelease(guard) {
  const [stripe] = guard.stripes;
  const value = counters[stripe];
  dawdle(20);
  counters[stripe] = value + 1;
  added++;
  guard.release();
}

meet(gate, threads);
let pending = [];
for (let round = 0; round < rounds; round++) {
  const key = below(random, keyCount);
  const way = ['sync', 'try', 'async'][below(random, 3)];
  if (way === 'sync') {
    bumpAndRelease(lock.acquireSync(key));
    ways.sync++;
  } else if (way === 'try') {
    const guard = lock.tryAcquire(key);
    if (guard) {
      bumpAndRelease(guard);
      ways.try++;
    }
  } else {
    pending.push(lock.acquire(key).then(bumpAndRelease));
    ways.async++;
    // Grants that arrived meanwhile are used and released in this turn. Blocking while holding them would be a
    // deadlock.
    await nextTurn();
  }
  if (pending.length === MOST_PENDING) {
    await Promise.all(pending);
    pending = [];
  }
}
await Promise.all(pending);
parentPort.postMessage({ added, ways });
