// @ts-check
// Threads that wait for one key. Arguments: how many milliseconds; 'worker' makes the lock in a thread.
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { KeyedLock } from 'stripelock';

const [, , duration = '300', where] = process.argv;

/** @param {import('stripelock').KeyedLockHandle} handle */
async function contend(handle) {
  const threads = [1, 2].map(() => new Worker(new URL(import.meta.url), { workerData: { handle } }));
  await Promise.all(threads.map((thread) => new Promise((resolve) => thread.on('exit', resolve))));
}

/** @param {KeyedLock} lock */
function hold(lock) {
  lock.withLockSync('key', () => {
    const end = performance.now() + 2;
    while (performance.now() < end);
  });
}

if (isMainThread && where === 'worker') {
  new Worker(new URL(import.meta.url), { workerData: { makes: true } });
} else if (isMainThread || workerData.makes) {
  await contend(new KeyedLock({ name: 'whole' }).handle);
  if (isMainThread) console.log('done');
} else {
  const lock = KeyedLock.from(workerData.handle);
  const end = performance.now() + Number(duration);
  while (performance.now() < end) hold(lock);
}
