// Hand-over latency: either of the two threads. They take turns through a word that does not belong to the lock:
//
//   GIVER    the giver is to take the key, then says
//   HELD     the taker is to ask for the key; just before that, or just after where that does not block, it says
//   WAITING  the giver lets the taker wait for a while, notes the time, and gives the key back; the taker, when it has
//            the key, notes the time, gives it back and says GIVER

import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { efforts } from '../effort.mjs';
import { openLock, subjectNamed } from '../subjects/index.mjs';
import { Waits } from '../support/waits.mjs';
import { workloadNamed } from '../workloads/index.mjs';
import { GIVER, HELD, STOPPED, TURN, WAITING } from './hand-over.mjs';

if (parentPort === null) throw new Error('must run in a worker thread');
/**
 * @type {{ role: 'giver' | 'taker', shared: unknown, control: Int32Array, releasedAt: BigInt64Array,
 *   effort: import('../effort.mjs').Effort['name'] }}
 */
const { role, shared, control, releasedAt, effort } = workerData;
/** @type {import('../workloads/index.mjs').HandOverWorkload} */
const workload = workloadNamed(workerData.workload);
const lock = openLock(subjectNamed(workerData.subject), shared);
const { window } = efforts[effort];
const KEY = 'account:1234567';
/** Nanoseconds, less than the time since the machine was started. */
const LONGEST = 10e9;
const waits = new Waits();
let early = 0;

const say = (/** @type {number} */ turn) => {
  Atomics.store(control, TURN, turn);
  Atomics.notify(control, TURN);
};
const stopped = () => Atomics.load(control, STOPPED) === 1;

/**
 * False if the other thread has stopped meanwhile.
 *
 * @param {number} turn
 */
function untilSync(turn) {
  for (;;) {
    const now = Atomics.load(control, TURN);
    if (stopped()) return false;
    if (now === turn) return true;
    Atomics.wait(control, TURN, now);
  }
}

/**
 * Timers, not `Atomics.waitAsync`, so that the event loop is as idle as one that has nothing else to do.
 *
 * @param {number} turn
 */
async function untilAsync(turn) {
  while (Atomics.load(control, TURN) !== turn) {
    if (stopped()) return false;
    await sleep(1);
  }
  return !stopped();
}

/** @param {number} milliseconds */
function spin(milliseconds) {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

function letGo() {
  releasedAt[0] = process.hrtime.bigint();
}

/** Hand-overs before any counts, so that all code has run, and the fewest that count. */
const FIRST = 5;
const FEWEST = 20;

let count = 0;
let countsSince = NaN;

/** The taker has the key. */
function taken() {
  const nanoseconds = Number(process.hrtime.bigint() - releasedAt[0]);
  // If the next taker enters before the giver notes the time again, the time since 0 is too long, and counts as early.
  releasedAt[0] = 0n;
  const isEarly = nanoseconds < 0 || nanoseconds > LONGEST;
  if (isEarly) early++;
  else if (count >= FIRST) waits.record(nanoseconds / 1e6);
  if (++count === FIRST) countsSince = performance.now();
  const enough = count >= FIRST + FEWEST && performance.now() - countsSince >= window;
  // A thread that enters early mixes up whose turn it is.
  if (enough || isEarly) Atomics.store(control, STOPPED, 1);
}

const roles = {
  giver: {
    sync: () => {
      while (untilSync(GIVER)) {
        const held = lock.acquireSync(KEY);
        say(HELD);
        untilSync(WAITING);
        spin(workload.head);
        letGo();
        lock.release(held);
      }
    },
    async: async () => {
      while (await untilAsync(GIVER)) {
        await lock.run(KEY, async () => {
          say(HELD);
          await untilAsync(WAITING);
          await sleep(workload.head);
          letGo();
        });
      }
    },
  },
  taker: {
    sync: () => {
      while (untilSync(HELD)) {
        say(WAITING);
        const held = lock.acquireSync(KEY);
        taken();
        lock.release(held);
        say(GIVER);
      }
    },
    async: async () => {
      while (await untilAsync(HELD)) {
        const request = lock.run(KEY, async () => taken());
        say(WAITING);
        await request;
        say(GIVER);
      }
    },
  },
};

// Node's own locks let a thread end while its requests are pending.
const alive = setInterval(() => undefined, 60_000);
await roles[role][workload[role]]();
clearInterval(alive);
parentPort.postMessage({ report: { histogram: waits.histogram, early } });
