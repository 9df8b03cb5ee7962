// @ts-check
// Waits three times for a key that is held, and then ends before any microtask runs.
import { workerData } from 'node:worker_threads';
import { KeyedLock } from 'stripelock';

/** @type {{ handle: import('stripelock').KeyedLockHandle, end: string }} */
const { handle, end } = workerData;
const lock = KeyedLock.from(handle);

function waitsInThread() {
  try {
    lock.acquireSync('k', { timeout: 1 });
  } catch {
    // The wait has ended at its timeout.
  }
}

for (let i = 0; i < 3; i++) waitsInThread();
if (end === 'exits') process.exit();
if (end === 'throws') throw new Error('ended on purpose');
