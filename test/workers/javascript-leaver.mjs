// Ends in one of two ways: while its event loop is still told of a stripe for which it no longer waits, or with an
// acquisition pending. The end is held up when the lock has seen it coming.
import { parentPort, workerData } from 'node:worker_threads';
import { lockFrom } from './lock-from.mjs';

const { handle, way, keys, gate } = workerData;
const [reached, goOn] = [0, 1];
const lock = lockFrom(handle);
const steps = new Int32Array(gate);
if (way === 'idle') await lock.acquire(keys, { timeout: 5 }).catch(() => undefined);
else void lock.acquire(keys, { timeout: Infinity });
process.on('exit', () => {
  Atomics.store(steps, reached, 1);
  Atomics.wait(steps, goOn, 0);
});
parentPort.postMessage('leaves');
if (way === 'pending') process.exit();
