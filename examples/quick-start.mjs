/** Locking in a worker and, without blocking, in the main thread: both add to one balance. */
import { once } from 'node:events';
import { Worker, isMainThread, workerData } from 'node:worker_threads';
import { StripedLock } from 'stripelock';

if (isMainThread) {
  const lock = new StripedLock({ name: 'accounts' });
  const cents = new Float64Array(new SharedArrayBuffer(8));
  const worker = new Worker(new URL(import.meta.url), {
    workerData: { handle: lock.handle, cents },
  });
  const finished = once(worker, 'exit');
  for (let i = 0; i < 1000; i++) {
    await lock.withLock('acct:1', () => cents[0]++); // waits without blocking the event loop
  }
  await finished;
  console.log(`balance: ${cents[0]}`); // 2000
} else {
  const { handle, cents } = workerData;
  const lock = StripedLock.from(handle); // the same lock, in another thread
  for (let i = 0; i < 1000; i++) {
    const guard = lock.acquireSync(['acct:1', 'acct:2']); // blocks; both keys or neither
    try {
      cents[0]++;
    } finally {
      guard.release();
    }
  }
}
