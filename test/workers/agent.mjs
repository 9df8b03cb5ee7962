// Uses a lock as messages say, and answers each. See test/support/agent.ts.
import { parentPort, workerData } from 'node:worker_threads';
import { lockFrom } from './lock-from.mjs';

const lock = lockFrom(workerData.handle);
const guards = new Map();
let nextGuard = 0;
const clock = new Int32Array(new SharedArrayBuffer(4));

function keep(guard) {
  if (guard === undefined) return undefined;
  const number = nextGuard++;
  guards.set(number, guard);
  return { number, stripes: guard.stripes, mode: guard.mode, abandoned: guard.abandoned };
}

const methods = {
  ready: () => undefined,
  acquireSync: (keys, options) => keep(lock.acquireSync(keys, options)),
  acquire: async (keys, options) => keep(await lock.acquire(keys, options)),
  tryAcquire: (keys, options) => keep(lock.tryAcquire(keys, options)),
  release: (number) => guards.get(number).release(),
  releaseAfter: (number, milliseconds) => {
    Atomics.wait(clock, 0, 0, milliseconds);
    guards.get(number).release();
  },
  useEach: (keys) => {
    for (const key of keys) lock.acquireSync(key).release();
  },
  token: (number) => guards.get(number).token,
  held: (number) => guards.get(number).held,
  stats: () => lock.stats(),
  inspect: () => lock.inspect(),
  // Its function never settles.
  hang: (keys) => void lock.withLock(keys, () => new Promise(() => undefined)),
  stripeOf: (key) => lock.stripeOf(key),
  // Blocks its event loop until the flag is 2.
  compute: (flag) => {
    Atomics.store(flag, 0, 1);
    while (Atomics.load(flag, 0) !== 2);
  },
};

parentPort.on('message', async ({ id, method, args }) => {
  try {
    parentPort.postMessage({ id, result: await methods[method](...args) });
  } catch (error) {
    const { name, message, code, keys, threads, stripe, stripes, timeout, holders } = error;
    parentPort.postMessage({
      id,
      error: { name, message, code, keys, threads, stripe, stripes, timeout, holders },
    });
  }
});
