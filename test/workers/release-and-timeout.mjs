// Two threads in step. In each round the holder takes the key, the waiter waits for it with a timeout of 1 ms, and the
// holder releases it after about 1 ms.
import { parentPort, workerData } from 'node:worker_threads';
import { LockTimeoutError } from 'stripelock';
import { dawdle } from './dawdle.mjs';
import { lockFrom } from './lock-from.mjs';
import { randomFrom } from './random.mjs';

const { handle, steps, cells, rounds, role, seed, how, waitersEach } = workerData;
const lock = lockFrom(handle);
const step = new Int32Array(steps);
const counter = new Int32Array(cells);
const [HELD, DONE] = [0, 1];
const TIMEOUT = 1;
const result = { granted: 0, failed: 0 };

function bumpAndRelease(guard) {
  const value = counter[0];
  dawdle(20);
  counter[0] = value + 1;
  result.granted++;
  guard.release();
}

function timedOut(error) {
  if (!(error instanceof LockTimeoutError)) throw error;
  result.failed++;
}

function reach(index, round) {
  Atomics.store(step, index, round);
  Atomics.notify(step, index);
}

function await_(index, round) {
  for (let seen; (seen = Atomics.load(step, index)) < round;) Atomics.wait(step, index, seen);
}

async function wait() {
  if (how === 'sync') {
    try {
      bumpAndRelease(lock.acquireSync('key', { timeout: TIMEOUT }));
    } catch (error) {
      timedOut(error);
    }
  } else {
    const waiters = [];
    for (let i = 0; i < waitersEach; i++) {
      waiters.push(lock.acquire('key', { timeout: TIMEOUT }).then(bumpAndRelease, timedOut));
    }
    await Promise.all(waiters);
  }
}

const random = randomFrom(seed);
for (let round = 1; round <= rounds; round++) {
  if (role === 'holder') {
    const guard = lock.acquireSync('key');
    reach(HELD, round);
    // Timers are late rather than early, so the holder releases after more than the timeout. On a busy machine they are
    // sometimes very late.
    const above = round % 10 === 0 ? 8 * random() : 0.5 * random();
    const end = performance.now() + TIMEOUT * (0.9 + above);
    while (performance.now() < end);
    bumpAndRelease(guard);
    await_(DONE, round);
  } else {
    await_(HELD, round);
    await wait();
    reach(DONE, round);
  }
}
parentPort.postMessage(result);
