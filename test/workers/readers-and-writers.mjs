// Writers increment two plain integers with work in between. Readers check whether they differ.
import { parentPort, workerData } from 'node:worker_threads';
import { dawdle } from './dawdle.mjs';
import { lockFrom } from './lock-from.mjs';

const { handle, cells, role, rounds } = workerData;
const lock = lockFrom(handle);
const pair = new Int32Array(cells);
let torn = 0;
for (let round = 0; round < rounds; round++) {
  const guard = lock.acquireSync('pair', { mode: role === 'writer' ? 'exclusive' : 'shared' });
  if (role === 'writer') {
    pair[0] = pair[0] + 1;
    dawdle(20);
    pair[1] = pair[1] + 1;
  } else {
    const first = pair[0];
    dawdle(20);
    if (pair[1] !== first) torn++;
  }
  guard.release();
}
parentPort.postMessage({ torn, rounds });
