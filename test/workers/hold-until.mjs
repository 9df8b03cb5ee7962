// Takes keys on a message, and releases them after the given milliseconds, or on a message. Counts in a cell how often it has
// taken some, and how often it has released them.
import { parentPort, workerData } from 'node:worker_threads';
import { lockFrom } from './lock-from.mjs';

const { handle, cells } = workerData;
const lock = lockFrom(handle);
const count = new Int32Array(cells);
let guard;

function tell(cell) {
  Atomics.add(count, cell, 1);
  Atomics.notify(count, cell);
}

function release() {
  guard.release();
  tell(1);
}

parentPort.on('message', async ({ keys, mode, milliseconds }) => {
  if (keys === undefined) return release();
  guard = await lock.acquire(keys, { mode });
  tell(0);
  if (milliseconds !== undefined) setTimeout(release, milliseconds);
});
