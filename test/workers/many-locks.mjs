// Adds one to a plain counter under each of many locks, again and again.
import { parentPort, workerData } from 'node:worker_threads';
import { dawdle } from './dawdle.mjs';
import { lockFrom } from './lock-from.mjs';

const { handles, cells, rounds } = workerData;
const locks = handles.map((handle) => lockFrom(handle));
const counters = new Int32Array(cells);
for (let round = 0; round < rounds; round++) {
  for (const [i, lock] of locks.entries()) {
    const guard = round % 2 === 0 ? lock.acquireSync('key') : await lock.acquire('key');
    const value = counters[i];
    dawdle(20);
    counters[i] = value + 1;
    guard.release();
  }
}
parentPort.postMessage('done');
