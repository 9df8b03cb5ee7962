// Pins keys, and unpins one after the other, each time the main thread sets the gate to the next number: also while that
// thread is in the middle of a call.
import { parentPort, workerData } from 'node:worker_threads';
import { NO_STRIPE, STRIPE_MASK } from '../../unbundled/engine/contract/exact-keys.js';
import { KEYED, openHandle } from '../../unbundled/lock/handle.js';

const { handle, keys, gate } = workerData;
const { keys: exact } = openHandle(KEYED, handle).table;
const stripes = keys.map((key) => exact.pin(key, NO_STRIPE) & STRIPE_MASK);
parentPort.postMessage(stripes);
const [asked, done] = [new Int32Array(gate, 0, 1), new Int32Array(gate, 4, 1)];
for (const [i, stripe] of stripes.entries()) {
  Atomics.wait(asked, 0, i);
  exact.unpin(Int32Array.of(stripe), 1);
  Atomics.store(done, 0, i + 1);
  Atomics.notify(done, 0);
}
