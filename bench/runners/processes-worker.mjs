// processes-worker.mjs <data>: one of several processes that use a lock. Its parent sends it commands as messages. For several
// threads, each further thread is a worker that runs this same module, and gets the command to count from the first thread.

import { openSync, readSync, writeSync } from 'node:fs';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
// Not the index of all subjects: to load that takes a process longer than all else.
import { lockedFiles } from '../subjects/locked-files.mjs';
import { processLocks } from '../subjects/process-locks.mjs';
import { Waits } from '../support/waits.mjs';
import { told } from './told.mjs';

/** @type {{ subject: string, shared: unknown, how: 'sync' | 'async', key: string, threads: number }} */
const { subject, shared, how, key, threads } = JSON.parse(process.argv[2]);
const lock = /** @type {import('../subjects/index.mjs').Lock} */ (
  await [...processLocks, ...lockedFiles].find(({ name }) => name === subject)?.open(shared)
);
const say = (/** @type {object} */ message) =>
  parentPort === null ? process.send?.(message) : parentPort.postMessage(message);
const workers = Array.from(
  { length: isMainThread ? threads - 1 : 0 },
  () => new Worker(new URL(import.meta.url), { argv: process.argv.slice(2) }),
);
await Promise.all(workers.map((worker) => told(worker, 'ready')));
const now = () => String(process.hrtime.bigint());

/**
 * Runs a section under the lock, which blocks or awaits.
 *
 * @param {() => void} section
 */
function under(section) {
  if (how === 'async') return lock.run(key, async () => section());
  const held = lock.acquireSync(key);
  section();
  lock.release(held);
  return undefined;
}

/** Acquisitions after which an event loop turns, in which it hears of others. */
const TURN = 64;

/** @param {{ file: string, warmup: number, window: number }} order */
async function count({ file, warmup, window }) {
  const opened = openSync(file, 'r+');
  const counts = new Float64Array(2);
  const waits = new Waits();
  let torn = false;
  let all = 0;
  let asked = 0;
  const section = () => {
    waits.record(performance.now() - asked);
    readSync(opened, counts, 0, 16, 0);
    torn ||= counts[0] !== counts[1];
    counts[0] += 1;
    writeSync(opened, counts, 0, 8, 0);
    counts[1] += 1;
    writeSync(opened, counts, 1 * 8, 8, 8);
    all += 1;
  };
  const until = async (/** @type {number} */ end) => {
    for (asked = performance.now(); asked < end; asked = performance.now()) {
      const done = under(section);
      if (done !== undefined) await done;
      if (how === 'async' && all % TURN === 0) await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const began = performance.now();
  await until(began + warmup);
  waits.reset();
  const before = all;
  await until(began + warmup + window);
  const done = all - before;
  // Until all others have measured, so that none has the key for itself.
  await until(began + warmup + window + warmup);
  return { all, done, torn, ...waits.percentiles() };
}

/** @type {(() => void) | undefined} */
let letGo;

(parentPort ?? process).on(
  'message',
  async (/** @type {any} */ { count: counting, take, give, takeAndGive }) => {
    if (counting !== undefined) {
      const others = workers.map((worker) => told(worker, 'counted'));
      for (const worker of workers) worker.postMessage({ count: counting });
      const own = await count(counting);
      say({ counted: [own, ...(await Promise.all(others)).flat()] });
    }
    if (take && how === 'sync') {
      const held = lock.acquireSync(key);
      letGo = () => lock.release(held);
      say({ held: true });
    }
    if (take && how === 'async') {
      void lock.run(key, () => {
        say({ held: true });
        return new Promise((resolve) => (letGo = () => resolve(undefined)));
      });
    }
    if (give) {
      const releasedAt = now();
      letGo?.();
      say({ releasedAt });
    }
    if (takeAndGive) {
      let grantedAt = '';
      await under(() => (grantedAt = now()));
      say({ grantedAt });
    }
  },
);
process.on('disconnect', () => process.exit());
say({ ready: true });
