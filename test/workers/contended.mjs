// @ts-check
// Rounds of a planted slow holder of a hot key, for which all others ask meanwhile, and a quiet thread with a separate key.
// No thread computes, so that a busy machine changes little.
import { workerData } from 'node:worker_threads';
import './preempted.mjs';
import { KeyedLock } from 'stripelock';

/**
 * @typedef {'hot' | 'hot-async' | 'slow' | 'quiet'} Role
 * @type {{ handle: import('stripelock').KeyedLockHandle, role: Role, gate: SharedArrayBuffer, rounds: number, askers: number }}
 */
const { handle, role, gate, rounds, askers } = workerData;
const lock = KeyedLock.from(handle);
/** How often the slow one has held the key; and how often the others have. */
const [HELD, SERVED, NEVER] = [0, 1, 2];
const counts = new Int32Array(gate);

/** @param {number} milliseconds */
const sleep = (milliseconds) => Atomics.wait(counts, NEVER, 0, milliseconds);

/**
 * @param {number} index
 * @param {number} least
 */
function waitFor(index, least) {
  for (let seen = Atomics.load(counts, index); seen < least; seen = Atomics.load(counts, index))
    Atomics.wait(counts, index, seen);
}

/** @param {number} index */
function count(index) {
  Atomics.add(counts, index, 1);
  Atomics.notify(counts, index);
}

function plantedSlowHolder() {
  lock.withLockSync('account 17', () => {
    count(HELD);
    sleep(400);
  });
}

function hotTransfer() {
  const guard = lock.acquireSync('account 17');
  sleep(1);
  guard.release();
}

async function hotRequest() {
  await lock.withLock('account 17', () => sleep(1));
}

function quietTransfer() {
  lock.withLockSync('account 1000', () => sleep(1));
}

for (let round = 1; round <= rounds; round++) {
  if (role === 'slow') {
    plantedSlowHolder();
    waitFor(SERVED, round * askers);
    continue;
  }
  waitFor(HELD, round);
  if (role === 'quiet') {
    quietTransfer();
    continue;
  }
  if (role === 'hot') hotTransfer();
  else await hotRequest();
  count(SERVED);
}
