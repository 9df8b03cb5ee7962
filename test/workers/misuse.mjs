// Takes and releases keys in any order, and releases old guards again and again, whoever holds their keys by then. Adds
// one to a plain counter of each key that it holds.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { dawdle } from './dawdle.mjs';
import { lockFrom } from './lock-from.mjs';
import { meet } from './meet.mjs';
import { below, randomFrom } from './random.mjs';

const { handle, cells, gate, threads, keys, rounds, seed } = workerData;
const lock = lockFrom(handle);
const counters = new Int32Array(cells);
const random = randomFrom(seed);
const added = keys.map(() => 0);
const old = [];

function misuse() {
  for (let i = 0; i < 4 && old.length > 0; i++) {
    const guard = old[below(random, old.length)];
    if (random() < 0.5) guard.release();
    else guard[Symbol.dispose]();
  }
}

meet(gate, threads);
for (let round = 0; round < rounds; round++) {
  // Ascending, so that threads never wait for each other in a cycle.
  const chosen = [...new Set([below(random, keys.length), below(random, keys.length)])].sort((a, b) => a - b);
  const guards = [];
  const blocking = round % 3 !== 0;
  for (const i of chosen) {
    const mode = random() < 0.2 ? 'shared' : 'exclusive';
    guards.push({
      i,
      mode,
      guard: blocking ? lock.acquireSync(keys[i], { mode }) : await lock.acquire(keys[i], { mode }),
    });
  }
  misuse();
  for (const { i, mode } of guards) {
    if (mode === 'shared') continue;
    const value = counters[i];
    dawdle(20);
    misuse();
    counters[i] = value + 1;
    added[i]++;
  }
  if (random() < 0.5) guards.reverse();
  for (const { guard } of guards) {
    guard.release();
    old.push(guard);
    misuse();
  }
  if (old.length > 50) old.splice(0, 25);
  if (round % 50 === 0) await nextTurn();
}
parentPort.postMessage(added);
