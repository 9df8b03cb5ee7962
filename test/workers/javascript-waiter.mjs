// Waits for a key, in one way or another, until it is ended.
import { parentPort, workerData } from 'node:worker_threads';
import { lockFrom } from './lock-from.mjs';

const { handle, way, mode = 'exclusive' } = workerData;
const lock = lockFrom(handle);
parentPort.postMessage('waits');
for (;;) {
  if (way === 'sync') lock.acquireSync('key', { mode, timeout: Infinity }).release();
  else (await lock.acquire('key', { mode, timeout: Infinity })).release();
}
