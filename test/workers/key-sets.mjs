// Adds one to the plain counters of a set of keys while it holds these keys, again and again: a fixed set, or a new
// random one each time. Each round uses one way to acquire, and ends before the next one begins.
import { parentPort, workerData } from 'node:worker_threads';
import { dawdle } from './dawdle.mjs';
import { lockFrom } from './lock-from.mjs';
import { below, randomFrom } from './random.mjs';

const { handle, cells, rounds, keys: fixed, seed = 0 } = workerData;
const lock = lockFrom(handle);
const counters = new Int32Array(cells);
const random = randomFrom(seed);
const own = new Array(counters.length).fill(0);

function chooseKeys() {
  return fixed ?? Array.from({ length: 1 + below(random, 8) }, () => below(random, counters.length));
}

async function acquireSomehow(keys, round) {
  switch (round % 3) {
    case 0:
      return lock.acquireSync(keys);
    case 1:
      return lock.acquire(keys);
    default:
      return lock.tryAcquire(keys) ?? lock.acquireSync(keys);
  }
}

for (let round = 0; round < rounds; round++) {
  const keys = chooseKeys();
  const guard = await acquireSomehow(keys, round);
  for (const key of new Set(keys)) {
    const value = counters[key];
    dawdle(10);
    counters[key] = value + 1;
    own[key]++;
  }
  guard.release();
}
parentPort.postMessage(own);
