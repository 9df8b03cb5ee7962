// Round by round: takes a key of its own and then, blocking, that of the next thread, so that all wait in a cycle;
// tells how it came out, and gives back what it has.
import { parentPort, threadId, workerData } from 'node:worker_threads';
import { StripedLock } from 'stripelock';
import { clock } from './clock.mjs';
import { meet } from './meet.mjs';

const { handles, gates, threads, index, keys, mode, wantedMode } = workerData;
const locks = handles.map((handle) => StripedLock.from(handle));
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
  // Nobody takes its own again before all have had what they wait for.
  meet(after, threads);
}
parentPort.postMessage({ threadId, rounds });
