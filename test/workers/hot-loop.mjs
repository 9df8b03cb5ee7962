// Takes and releases one key without a pause until it is stopped.
import { parentPort, workerData } from 'node:worker_threads';
import { dawdle } from './dawdle.mjs';
import { lockFrom } from './lock-from.mjs';

const { handle, stop, mode } = workerData;
const lock = lockFrom(handle);
const [STOP, RUNNING] = [0, 1];
const flags = new Int32Array(stop);
Atomics.add(flags, RUNNING, 1);
let rounds = 0;
while (Atomics.load(flags, STOP) === 0) {
  const guard = lock.acquireSync('key', { mode, timeout: Infinity });
  dawdle(500);
  guard.release();
  rounds++;
}
parentPort.postMessage(rounds);
