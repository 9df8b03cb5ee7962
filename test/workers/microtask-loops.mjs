// Acquires one key again and again in many loops at once, until it is stopped. Each loop waits for its own promises
// only, so this thread never gets to its event loop if the lock lets it.
import { workerData } from 'node:worker_threads';
import { lockFrom } from './lock-from.mjs';
import { meet } from './meet.mjs';

const { handle, gate, threads, loops, rounds, index, stop } = workerData;
const lock = lockFrom(handle);
const counts = new Int32Array(rounds);
const stopped = new Int32Array(stop);

async function section() {
  await undefined;
}

async function loop() {
  while (Atomics.load(stopped, 0) === 0) {
    await lock.withLock('key', { timeout: Infinity }, section);
    Atomics.add(counts, index, 1);
  }
}

meet(gate, threads);
await Promise.all(Array.from({ length: loops }, loop));
