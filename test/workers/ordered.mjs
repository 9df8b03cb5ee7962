// Takes stripes on top of those that it holds, blocking and not, several at a time, with other acquisitions pending, in
// an order in which no deadlock is possible: a task asks for stripes above those that it holds, and a thread blocks
// only for stripes above all that its tasks hold. Adds one to a plain counter of each stripe that it holds exclusively,
// and checks that the counter does not change while it holds the stripe shared.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { dawdle } from './dawdle.mjs';
import { lockFrom } from './lock-from.mjs';
import { meet } from './meet.mjs';
import { below, randomFrom } from './random.mjs';

const { handle, cells, gate, threads, keys, stop, seed } = workerData;
const lock = lockFrom(handle);
const counters = new Int32Array(cells);
const stopped = new Int32Array(stop);
const random = randomFrom(seed);
const added = new Array(keys.length).fill(0);
const result = { added, acquisitions: 0, changed: 0, failures: [] };
/** The highest stripe of each guard that the tasks of this thread hold. */
const held = new Map();

const TASKS = 4;
const DEPTH = 3;

function chooseAbove(lowest, most) {
  const chosen = new Set();
  for (let i = 0; i <= below(random, most); i++) {
    if (lowest < keys.length) chosen.add(lowest + below(random, keys.length - lowest));
  }
  return [...chosen].sort((a, b) => a - b);
}

function use(numbers, mode) {
  for (const i of numbers) {
    const value = counters[i];
    dawdle(below(random, 60));
    if (mode === 'exclusive') {
      counters[i] = value + 1;
      added[i]++;
    } else if (counters[i] !== value) {
      result.changed++;
    }
  }
  result.acquisitions++;
}

async function descend(lowest, depth) {
  const blocking = random() < 0.5;
  // A task may have been granted something in this turn, which it does not know yet and which is not in `held`.
  if (blocking) await nextTurn();
  const bottom = blocking ? Math.max(lowest, ...[...held.values()].map((highest) => highest + 1)) : lowest;
  const numbers = chooseAbove(bottom, 3);
  if (numbers.length === 0) return;
  const names = numbers.map((i) => keys[i]);
  const mode = random() < 0.3 ? 'shared' : 'exclusive';
  let guard;
  if (blocking) guard = lock.acquireSync(names, { mode });
  else if (random() < 0.2) guard = lock.tryAcquire(names, { mode });
  else guard = await lock.acquire(names, { mode });
  if (!guard) return;
  held.set(guard, numbers.at(-1));
  try {
    use(numbers, mode);
    if (random() < 0.2) await nextTurn();
    if (depth < DEPTH && random() < 0.6) await descend(numbers.at(-1) + 1, depth + 1);
  } finally {
    held.delete(guard);
    guard.release();
  }
}

meet(gate, threads);
async function task() {
  while (Atomics.load(stopped, 0) === 0) {
    await descend(0, 1).catch(({ name, code, message }) => result.failures.push({ name, code, message }));
    if (random() < 0.3) await nextTurn();
  }
}
await Promise.all(Array.from({ length: TASKS }, task));
parentPort.postMessage(result);
