// Blocks for a key twice in one turn, each round, while its own async acquisition of that key is pending.
import { parentPort, workerData } from 'node:worker_threads';
import { dawdle } from './dawdle.mjs';
import { lockFrom } from './lock-from.mjs';

const { handle, cells, rounds } = workerData;
const lock = lockFrom(handle);
const counter = new Int32Array(cells);
let added = 0;

function bumpAndRelease(guard) {
  const value = counter[0];
  dawdle(20);
  counter[0] = value + 1;
  added++;
  guard.release();
}

for (let round = 0; round < rounds; round++) {
  const pending = lock.acquire('key').then(bumpAndRelease);
  // If the key was free, its guard is used and released here. Blocking while holding it would be a deadlock.
  await undefined;
  bumpAndRelease(lock.acquireSync('key'));
  bumpAndRelease(lock.acquireSync('key'));
  await pending;
}
parentPort.postMessage(added);
