// @ts-check
// Holds a key from its message on, for a time, and then ends.
import { parentPort, workerData } from 'node:worker_threads';
import { KeyedLock } from 'stripelock';

/** @type {{ handle: import('stripelock').KeyedLockHandle, key: string, milliseconds: number }} */
const { handle, key, milliseconds } = workerData;
const lock = KeyedLock.from(handle);

function holdsForLong() {
  const guard = lock.acquireSync(key);
  parentPort?.postMessage('held');
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
  guard.release();
}

holdsForLong();
