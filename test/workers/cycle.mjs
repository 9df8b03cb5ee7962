// In each round it takes its own key and then blocks for that of the next thread, so that all wait in a cycle. Posts
// how each round ended, and releases what it has.
import { parentPort, threadId, workerData } from 'node:worker_threads';
import { clock } from './clock.mjs';
import { lockFrom } from './lock-from.mjs';
import { meet } from './meet.mjs';

const { handles, gates, threads, index, keys, mode, wantedMode } = workerData;
const locks = handles.map((handle) => lockFrom(handle));
const next = (index + 1) % threads;
const lockOf = (i) => locks[i % locks.length];

function round() {
  const start = clock();
  try {
    lockOf(next).acquireSync(keys[next], { mode: wantedMode, timeout: Infinity }).release();
    return { start, end: clock() };
  } catch (error) {
    const { name, code, message, keys, threads, stripes } = error;
    return { start, end: clock(), refused: { name, code, message, keys, threads, stripes } };
  }
}

const rounds = [];
for (const { before, after } of gates) {
  const own = lockOf(index).acquireSync(keys[index], { mode, timeout: Infinity });
  meet(before, threads);
  rounds.push(round());
  own.release();
  // No thread takes its own key again before all others got what they wait for.
  meet(after, threads);
}
parentPort.postMessage({ threadId, rounds });
