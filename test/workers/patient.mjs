// Waits for one key again and again, without a timeout, alternately blocking and async: no wake-up may be lost.
import { parentPort, workerData } from 'node:worker_threads';
import { dawdle } from './dawdle.mjs';
import { lockFrom } from './lock-from.mjs';
import { meet } from './meet.mjs';

const { handle, cells, gate, threads, keys, stop } = workerData;
const lock = lockFrom(handle);
const counters = new Int32Array(cells);
const stopped = new Int32Array(stop);
const added = keys.map(() => 0);
meet(gate, threads);
for (let round = 0; Atomics.load(stopped, 0) === 0; round++) {
  const i = round % keys.length;
  const options = { timeout: Infinity };
  const guard = round & 1 ? lock.acquireSync(keys[i], options) : await lock.acquire(keys[i], options);
  const value = counters[i];
  dawdle(100);
  counters[i] = value + 1;
  added[i]++;
  guard.release();
}
parentPort.postMessage(added);
