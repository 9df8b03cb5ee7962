// A debugger, here a worker's session with the main thread, runs code in the middle of a blocking acquisition of an exact
// key. That code uses more keys than the lock has room for. The key that the thread waits for keeps its stripe meanwhile.
// Argument: the key.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Session } from 'node:inspector/promises';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { KeyedLock } from 'stripelock';

const CAPACITY = 8;

/** Runs in the main thread while it is blocked. */
const CODE = `
  const { lock, others } = globalThis.known;
  let used = 0;
  let refusal;
  try {
    // Each would give up the one before it.
    for (const key of others) {
      lock.acquireSync(key).release();
      used++;
    }
  } catch (error) {
    refusal = error.code;
  }
  ({ waiting: lock.stats().waiting, used, refusal })`;

function othersLike(key) {
  return Array.from({ length: 20 }, (_, i) => `${i}`.padEnd(key.length, '.'));
}

async function debug({ handle, key }) {
  const lock = KeyedLock.from(handle);
  const theirs = lock.acquireSync(key);
  parentPort.postMessage('ready');
  while (lock.stats().waiting < 1) await new Promise(setImmediate);
  const session = new Session();
  // Keeps this thread alive until the main thread has its lock: see debugged.mjs.
  const end = once(parentPort, 'message');
  session.connectToMainThread();
  const { result, exceptionDetails } = await session.post('Runtime.evaluate', {
    expression: CODE,
    returnByValue: true,
  });
  assert.equal(exceptionDetails, undefined, JSON.stringify(exceptionDetails));
  session.disconnect();
  theirs.release();
  while (lock.stats().waiting > 0) await new Promise(setImmediate);
  // The key is in use by the other thread alone. So there is room for all others but one.
  const guards = [];
  assert.throws(() => othersLike(key).forEach((other) => guards.push(lock.acquireSync(other))), {
    code: 'ERR_LOCK_CAPACITY',
  });
  assert.equal(lock.tryAcquire(key), undefined);
  const report = { ...result.value, room: guards.length };
  for (const guard of guards) guard.release();
  parentPort.postMessage(report);
  await end;
}

if (isMainThread) {
  const key = process.argv[2];
  const lock = new KeyedLock({ engine: 'native', capacity: CAPACITY, timeout: 20_000 });
  globalThis.known = { lock, others: othersLike(key) };
  const worker = new Worker(new URL(import.meta.url), { workerData: { handle: lock.handle, key } });
  await once(worker, 'message');
  const guard = lock.acquireSync(key);
  const [report] = await once(worker, 'message');
  guard.release();
  worker.postMessage('end');
  await once(worker, 'exit');
  assert.deepEqual([lock.stats().held, lock.stats().waiting, lock.size], [0, 0, 0]);
  console.log(JSON.stringify(report));
} else {
  await debug(workerData);
}
