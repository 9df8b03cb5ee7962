// A debugger, here a worker's session with the main thread, runs code in the middle of a blocking acquisition. That
// code may use locks, but cannot block. Prints the results.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Session } from 'node:inspector/promises';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { StripedLock } from 'stripelock';
import { loadAddon } from '../../unbundled/engine/native/addon.js';

/** Milliseconds: many times what a blocked thread needs to run code of a debugger. */
const LONG = 20_000;

/** Keys in the order of their stripes, so that it is known which one is taken first. */
function keysOf(lock) {
  const keys = Array.from({ length: 8 }, (_, i) => i).sort((a, b) => lock.stripeOf(a) - lock.stripeOf(b));
  assert.equal(new Set(keys.map((key) => lock.stripeOf(key))).size, keys.length);
  return keys;
}

/** Runs in the main thread while it is blocked for the keys 3, 6 and 7. Another thread holds the first of them. */
const CODE = `
  const { lock, addon, keys, held } = globalThis.known;
  const failure = (fn) => { try { fn(); return 'none'; } catch (error) { return error.code; } };
  ({
    waiting: lock.stats().waiting,
    // Uses the memory in which the stripes of the blocked acquisition were passed.
    free: lock.withLockSync([keys[1], keys[4], keys[5]], () => lock.stats().held),
    same: failure(() => lock.acquireSync(keys[3], { timeout: ${LONG} })),
    both: failure(() => lock.acquireSync([keys[0], keys[3]], { timeout: ${LONG} })),
    close: failure(() => addon.close(0)),
    pending: (known.pending = lock.acquire([keys[0], keys[3]], { timeout: ${LONG} })) instanceof Promise,
    released: held.release(),
  })`;

async function debug({ lock: handle, cells }) {
  const lock = StripedLock.from(handle);
  const keys = keysOf(lock);
  const theirs = lock.acquireSync(keys[3]);
  parentPort.postMessage('ready');
  while (lock.stats().waiting < 2) await new Promise(setImmediate);
  const session = new Session();
  // Keeps this thread alive, which a session does not. Node aborts if the thread of a session ends while the other
  // thread is about to close it.
  parentPort.once('message', () => undefined);
  session.connectToMainThread();
  const start = performance.now();
  const { result, exceptionDetails } = await session.post('Runtime.evaluate', {
    expression: CODE,
    returnByValue: true,
  });
  const elapsed = performance.now() - start;
  assert.equal(exceptionDetails, undefined, JSON.stringify(exceptionDetails));
  // A waiter that it added holds nothing while its thread is blocked.
  lock.tryAcquire(keys[0]).release();
  // Nor does one of its waiters hold what its code has released.
  lock.acquireSync(keys[2], { timeout: LONG / 2 }).release();
  assert.equal(lock.stats().waiting, 3);
  session.disconnect();
  cells[0] = 1;
  theirs.release();
  parentPort.postMessage({ elapsed, found: result.value });
}

if (isMainThread) {
  const lock = new StripedLock({ engine: 'native' });
  const cells = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(new URL(import.meta.url), { workerData: { lock: lock.handle, cells } });
  await once(worker, 'message');
  const keys = keysOf(lock);
  globalThis.known = { lock, addon: loadAddon(), keys, held: lock.acquireSync(keys[2]) };
  const waiting = lock.acquire(keys[2], { timeout: 2 * LONG });
  const guard = lock.acquireSync([keys[3], keys[6], keys[7]], { timeout: LONG });
  // The debugger has its answer then.
  assert.equal(cells[0], 1);
  // The pending acquisitions get theirs, now that this thread is not blocked any more.
  assert.deepEqual(
    lock.inspect().map(({ stripe }) => stripe),
    [lock.stripeOf(keys[0]), lock.stripeOf(keys[2]), ...guard.stripes],
  );
  guard.release();
  (await globalThis.known.pending).release();
  (await waiting).release();
  const [report] = await once(worker, 'message');
  worker.postMessage('end');
  await once(worker, 'exit');
  assert.deepEqual([lock.stats().held, lock.stats().waiting, lock.stats().abandoned], [0, 0, 0]);
  console.log(JSON.stringify(report));
} else {
  await debug(workerData);
}
