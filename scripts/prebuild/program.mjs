// The acceptance test of a binary, run by a host of its platform inside a staged package. Each printed line names one
// thing that works; the last is `all`.

import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';

const rounds = 20_000;
// An emulated host on a busy machine is slow. A run without a fault takes far less.
const patience = 120_000;

const { StripedLock } = /** @type {typeof import('stripelock')} */ (
  await import(new URL('./dist/index.mjs', import.meta.url).href)
);
/** @typedef {import('stripelock').StripedLock} Lock */

/**
 * A worker that does one of `parts`, and a function for its next message.
 *
 * @param {keyof typeof parts} part
 * @param {{ handle: import('stripelock').StripedLockHandle, cells?: Int32Array }} data
 */
function start(part, data) {
  const worker = new Worker(new URL(import.meta.url), { workerData: { part, ...data } });
  const message = () =>
    new Promise((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', reject);
    });
  return { worker, message };
}

/**
 * @param {boolean} holds
 * @param {string} what The message where it does not hold.
 */
function check(holds, what) {
  if (!holds) throw new Error(what);
}

async function loads() {
  const lock = new StripedLock({ stripes: 16, timeout: patience });
  check(lock.engine === 'native', `the engine is ${lock.engine}`);
  return lock;
}

/** @param {Lock} lock */
async function counts(lock) {
  const cells = new Int32Array(new SharedArrayBuffer(8));
  const workers = [1, 2].map(() => start('count', { handle: lock.handle, cells }));
  await Promise.all(workers.map(({ message }) => message()));
  check(cells[0] === 2 * rounds, `two workers counted ${cells[0]} instead of ${2 * rounds}`);
}

/** @param {Lock} lock */
async function terminates(lock) {
  const guard = lock.acquireSync('a');
  const { worker, message } = start('block', { handle: lock.handle });
  await message();
  while (lock.stats().waiting === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  await worker.terminate();
  check(lock.stats().waiting === 0, 'a terminated thread still waits');
  guard.release();
  lock.acquireSync('a').release();
}

/** @param {Lock} lock */
async function recovers(lock) {
  const { worker, message } = start('hold', { handle: lock.handle });
  await message();
  check(lock.tryAcquire('a') === undefined, 'two threads hold one key');
  await worker.terminate();
  const guard = await lock.acquire('a');
  check(guard.abandoned, 'the guard does not tell that the holder died');
  guard.release();
  check(lock.stats().abandoned === 1, `${lock.stats().abandoned} stripes were freed instead of 1`);
}

/**
 * Guards that live as long as their thread.
 *
 * @type {unknown[]}
 */
const kept = [];

const parts = {
  /** @param {Lock} lock */
  count(lock) {
    const { cells } = /** @type {{ cells: Int32Array }} */ (workerData);
    // Both begin at once. If one had finished before the other started, the test would prove nothing.
    Atomics.add(cells, 1, 1);
    while (Atomics.load(cells, 1) < 2);
    for (let round = 0; round < rounds; round++) {
      lock.withLockSync('a', () => {
        const before = cells[0];
        cells[0] = before + 1;
      });
    }
    parentPort?.postMessage('done');
  },
  /** @param {Lock} lock */
  block(lock) {
    parentPort?.postMessage('about to block');
    lock.acquireSync('a', { timeout: Infinity });
  },
  /** @param {Lock} lock */
  hold(lock) {
    kept.push(lock.acquireSync('a'));
    parentPort?.on('message', () => undefined);
    parentPort?.postMessage('held');
  },
};

if (isMainThread) {
  setTimeout(() => {
    console.log('no end in sight');
    process.exit(1);
  }, patience).unref();
  const lock = await loads();
  console.log('loads');
  await counts(lock);
  console.log('counts');
  await terminates(lock);
  console.log('terminates');
  await recovers(lock);
  console.log('recovers');
  console.log('all');
} else {
  const { part, handle } =
    /** @type {{ part: keyof typeof parts, handle: import('stripelock').StripedLockHandle }} */ (workerData);
  parts[part](StripedLock.from(handle));
}
