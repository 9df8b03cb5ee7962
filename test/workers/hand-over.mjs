// Holds a key until the key is requested, and releases it when a thread waits. `cells`: [0] is 1 from the request until
// it must acquire the key again, [1] is 1 while it holds the key.
import { workerData } from 'node:worker_threads';
import { lockFrom } from './lock-from.mjs';

const { handle, key, cells } = workerData;
const lock = lockFrom(handle);
/** Milliseconds after which it stops waiting for the requester, which may never wait for the key. */
const PATIENCE = 2;

/** A notification may come late, after the value that it was for is gone. */
const waitWhile = (value) => {
  while (Atomics.load(cells, 0) === value) Atomics.wait(cells, 0, value);
};

for (;;) {
  const guard = lock.acquireSync(key, { timeout: Infinity });
  Atomics.store(cells, 1, 1);
  waitWhile(0);
  const patience = performance.now() + PATIENCE;
  while (lock.stats().waiting === 0 && performance.now() < patience);
  guard.release();
  Atomics.store(cells, 1, 0);
  waitWhile(1);
}
