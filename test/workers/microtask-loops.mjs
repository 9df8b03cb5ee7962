// Acquires one key again and again by many loops at once, none of which ever waits for more than a promise of its own,
// until told to stop: where the lock lets it, this thread never gets to its event loop.
import { workerData } from 'node:worker_threads';
import { StripedLock } from 'stripelock';
import { meet } from './meet.mjs';

const { handle, gate, threads, loops, rounds, index, stop } = workerData;
const lock = StripedLock.from(handle);
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
