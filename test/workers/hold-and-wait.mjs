// Holds one key, blocks for another on a message, and releases both when it has them.
import { parentPort, workerData } from 'node:worker_threads';
import { lockFrom } from './lock-from.mjs';

const { handle, gate, wanted, pendingKey } = workerData;
const lock = lockFrom(handle);
const step = new Int32Array(gate);
const first = lock.acquireSync(wanted);
Atomics.store(step, 0, 1);
Atomics.wait(step, 0, 1);
const second = lock.acquireSync(pendingKey, { timeout: 10_000 });
second.release();
first.release();
parentPort.postMessage('done');
