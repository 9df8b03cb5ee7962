// @ts-check
// A thread that holds a key, and another one that waits for it meanwhile, again and again. Arguments: how often; 'worker' makes
// the lock in a thread.
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { KeyedLock } from 'stripelock';

const [, , rounds = '5', where] = process.argv;
/** How often each of the two has held the key. */
const [FIRST, SECOND, NEVER] = [0, 1, 2];

/** @param {KeyedLock} lock */
async function contend({ handle }) {
  const gate = new SharedArrayBuffer(12);
  const threads = [FIRST, SECOND].map(
    (role) => new Worker(new URL(import.meta.url), { workerData: { handle, gate, role } }),
  );
  await Promise.all(threads.map((thread) => new Promise((resolve) => thread.on('exit', resolve))));
}

/**
 * @param {KeyedLock} lock
 * @param {() => void} work
 */
function hold(lock, work) {
  lock.withLockSync('key', work);
}

if (isMainThread && where === 'worker') {
  new Worker(new URL(import.meta.url), { workerData: { makes: true } });
} else if (isMainThread || workerData.makes) {
  await contend(new KeyedLock({ name: 'whole' }));
  if (isMainThread) console.log('done');
} else {
  const lock = KeyedLock.from(workerData.handle);
  const counts = new Int32Array(workerData.gate);
  /**
   * @param {number} index
   * @param {number} least
   */
  const waitFor = (index, least) => {
    for (let seen = Atomics.load(counts, index); seen < least; seen = Atomics.load(counts, index))
      Atomics.wait(counts, index, seen);
  };
  /** @param {number} index */
  const count = (index) => {
    Atomics.add(counts, index, 1);
    Atomics.notify(counts, index);
  };
  for (let round = 1; round <= Number(rounds); round++) {
    if (workerData.role === FIRST) {
      hold(lock, () => {
        count(FIRST);
        Atomics.wait(counts, NEVER, 0, 40);
      });
      waitFor(SECOND, round);
    } else {
      waitFor(FIRST, round);
      hold(lock, () => undefined);
      count(SECOND);
    }
  }
}
