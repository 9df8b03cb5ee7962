// Uses a lock in all ways until it ends by itself or is terminated, at a random moment and in the middle of anything.
// Shared memory shows what it is doing. See test/support/churn.mjs.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { StripedLock } from 'stripelock';
import {
  CELLS,
  FAILURES,
  FALSE_GRANTS,
  FIRST,
  OWNER,
  SECOND,
  SECTIONS,
  STARTED,
  UNTOLD,
} from './churn-cells.mjs';
import { dawdle } from './dawdle.mjs';
import { below, randomFrom } from './random.mjs';

const { handle, extra, cells, keys, number, seed, end, milliseconds } = workerData;
const lock = StripedLock.from(handle);
const state = new Int32Array(cells);
const random = randomFrom(seed);
const cell = (i, which) => i * CELLS + which;
const count = (which, i = 0) => void Atomics.add(state, cell(i, which), 1);
let last = Infinity;
const isOver = () => performance.now() >= last;
/** The guards of this thread's tasks. */
let holding = 0;

/** Enough that some wait behind others of their own thread. */
const TASKS = 6;

class End extends Error {}

/** In the middle of a section. */
function perhapsEnd() {
  if (!isOver()) return;
  if (end === 'exit') process.exit(7);
  if (end === 'throw') throw new End('the end of a thread, on purpose');
}

function write(i, told) {
  const before = Atomics.exchange(state, cell(i, OWNER), number);
  const differs = state[cell(i, FIRST)] !== state[cell(i, SECOND)];
  if ((before !== 0 || differs) && !told) count(UNTOLD, i);
  // The thread in this section is dead. This repairs what it left.
  if (told) state[cell(i, SECOND)] = state[cell(i, FIRST)];
  const value = state[cell(i, FIRST)] + 1;
  state[cell(i, FIRST)] = value;
  dawdle(below(random, 200));
  perhapsEnd();
  if (state[cell(i, SECOND)] !== value - 1) count(FALSE_GRANTS, i);
  state[cell(i, SECOND)] = value;
  if (Atomics.compareExchange(state, cell(i, OWNER), number, 0) !== number) count(FALSE_GRANTS, i);
}

function read(i, told) {
  const look = () => [OWNER, FIRST, SECOND].map((which) => Atomics.load(state, cell(i, which)));
  const before = look();
  dawdle(below(random, 200));
  perhapsEnd();
  const [owner, first, second] = look();
  if (before.join() !== [owner, first, second].join()) count(FALSE_GRANTS, i);
  if ((owner !== 0 || first !== second) && !told) count(UNTOLD, i);
}

async function acquire(names, mode) {
  const options = { mode, timeout: Infinity };
  const way = below(random, 3);
  if (way === 0) return lock.tryAcquire(names, { mode });
  if (way === 1) {
    // Blocking while a task of this thread holds something, or was granted something and does not know yet, could be a
    // deadlock.
    await nextTurn();
    if (holding === 0) return lock.acquireSync(names, options);
  }
  return lock.acquire(names, options);
}

async function step() {
  const chosen = [...new Set(Array.from({ length: 1 + below(random, 3) }, () => below(random, keys.length)))];
  const guard = await acquire(
    chosen.map((i) => keys[i]),
    random() < 0.3 ? 'shared' : 'exclusive',
  );
  if (!guard) return;
  holding++;
  for (const i of chosen) (guard.mode === 'shared' ? read : write)(i, guard.abandoned);
  count(SECTIONS);
  if (random() < 0.3) await nextTurn();
  guard.release();
  holding--;
}

async function task() {
  while (end === 'terminate' || !isOver()) {
    await step();
    if (random() < 0.2) await nextTurn();
  }
}

// A lock that only this thread uses: its memory must be freed with the thread.
const own = StripedLock.from(extra);
const numbers = Array.from({ length: own.stripes }, (_, i) => i);
globalThis.kept = [own, own.acquireSync(numbers, { mode: 'shared' })];
count(STARTED);
parentPort.postMessage('going');
last = performance.now() + milliseconds;
try {
  await Promise.all(Array.from({ length: TASKS }, task));
} catch (error) {
  // A thread that is being ended may still see ERR_LOCK_INTERRUPTED. In any other thread it becomes an error event, which
  // the main thread reports.
  if (!(error instanceof End) && error.code !== 'ERR_LOCK_INTERRUPTED') count(FAILURES);
  throw error;
}
// Neither releases what it holds at its end.
globalThis.kept.push(lock.tryAcquire(keys[below(random, keys.length)]));
