// @ts-check
// Threads at one hot key, one of which holds it for long now and then, and others at keys of their own.
import { threadId, workerData } from 'node:worker_threads';
import { KeyedLock } from 'stripelock';

/** @type {{ handle: import('stripelock').KeyedLockHandle, role: 'hot' | 'hot-async' | 'slow' | 'quiet', until: number }} */
const { handle, role, until } = workerData;
const lock = KeyedLock.from(handle);

/** @param {number} milliseconds */
function work(milliseconds) {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

/** @param {number} milliseconds */
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function plantedSlowHolder() {
  lock.withLockSync('account 17', () => work(15));
}

function hotTransfer() {
  const guard = lock.acquireSync('account 17');
  work(0.05);
  guard.release();
}

async function hotRequest() {
  await lock.withLock('account 17', () => work(0.05));
}

function quietTransfer() {
  lock.withLockSync(`account ${1000 + threadId}`, () => work(0.05));
}

while (Date.now() < until) {
  if (role === 'slow') {
    plantedSlowHolder();
    await pause(30);
  } else if (role === 'hot') {
    hotTransfer();
  } else if (role === 'hot-async') {
    await hotRequest();
  } else {
    quietTransfer();
    await pause(1);
  }
}
