// One of the threads whose acquisitions of one key are granted, time out and are aborted at about the same moment,
// round by round. Adds one to a plain counter for each grant.
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
const result = { granted: 0, timeouts: 0, aborts: 0, refused: 0, others: [], added: keys.map(() => 0) };

const WAITERS = 6;
/** Milliseconds: about as long as all waiters together hold a key. */
const MOMENT = 3;

function use(guard, chosen, mode) {
  for (const i of chosen) {
    const value = counters[i];
    dawdle(100);
    if (mode === 'exclusive') {
      counters[i] = value + 1;
      result.added[i]++;
    } else if (counters[i] !== value) {
      result.others.push('a reader saw a change');
    }
  }
  result.granted++;
  guard.release();
}

function fail(error, signal) {
  if (signal?.aborted && error === signal.reason) result.aborts++;
  else if (error.code === 'ERR_LOCK_TIMEOUT') result.timeouts++;
  else if (error.code === 'ERR_LOCK_DEADLOCK') result.refused++;
  else result.others.push(String(error));
}

function choose() {
  const chosen = new Set([below(random, keys.length)]);
  if (random() < 0.4) chosen.add(below(random, keys.length));
  return [...chosen];
}

const spun = (milliseconds) => {
  const end = performance.now() + milliseconds;
  while (performance.now() < end) dawdle(50);
};

meet(gate, threads);
while (Atomics.load(stopped, 0) === 0) {
  const abort = new AbortController();
  const pending = [];
  for (let i = 0; i < WAITERS; i++) {
    const chosen = choose();
    const mode = random() < 0.3 ? 'shared' : 'exclusive';
    const timeout = MOMENT * random();
    const signal = random() < 0.5 ? abort.signal : undefined;
    pending.push(
      lock
        .acquire(
          chosen.map((c) => keys[c]),
          { mode, timeout, ...(signal && { signal }) },
        )
        .then(
          (guard) => use(guard, chosen, mode),
          (error) => fail(error, signal),
        ),
    );
  }
  spun(random() * MOMENT);
  if (random() < 0.5) await nextTurn();
  abort.abort();
  // No guard is held and unused here: that can only happen in a later turn.
  await nextTurn();
  const chosen = choose();
  try {
    use(
      lock.acquireSync(
        chosen.map((c) => keys[c]),
        { timeout: MOMENT * random() },
      ),
      chosen,
      'exclusive',
    );
  } catch (error) {
    fail(error);
  }
  await Promise.all(pending);
}
parentPort.postMessage(result);
