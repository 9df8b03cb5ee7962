// Takes the given keys, reports that, and ends in the given way, without releasing anything. See
// test/support/victim.ts.
import { parentPort, workerData } from 'node:worker_threads';
import { lockFrom } from './lock-from.mjs';

const { handle, holds = [], pending = [], parked, numb } = workerData;
const lock = lockFrom(handle);
// Reachable for as long as the thread lives.
globalThis.kept = [lock];

const ends = {
  return: () => undefined,
  throw: () => {
    throw new Error('the end of a thread, on purpose');
  },
  reject: () => void Promise.reject(new Error('the end of a thread, on purpose')),
  exit: () => process.exit(7),
};

for (const { keys, mode, how } of holds) {
  globalThis.kept.push(
    how === 'async' ? await lock.acquire(keys, { mode }) : lock.acquireSync(keys, { mode }),
  );
}
for (const { keys, mode } of pending) {
  globalThis.kept.push(lock.acquire(keys, { mode, timeout: Infinity }));
}
parentPort.postMessage('ready');
if (parked) {
  globalThis.kept.push(lock.acquireSync(parked.keys, { mode: parked.mode, timeout: Infinity }));
  parentPort.postMessage('granted what it was parked for');
}
if (numb) {
  // The event loop is blocked from before the grant until the end.
  Atomics.wait(new Int32Array(numb.cell), 0, 0);
  ends[numb.end]();
}
parentPort.once('message', (end) => ends[end]());
