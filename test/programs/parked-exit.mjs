// Blocks threads. Then it ends, by process.exit() or otherwise, and prints the time just before; or it prints how much
// processor time the blocked threads use, and how often they wake.
//
//   node parked-exit.mjs <scenario> [threads] [atomics]
//
// `atomics`: the threads are blocked in Atomics.wait, for comparison.
import { writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { StripedLock } from 'stripelock';
import { clock } from '../workers/clock.mjs';

const FOR_EVER = { timeout: Infinity };
/** Milliseconds, many slices of a blocked thread (kSlice of sync_wait.h). */
const LONG = 1000;

/**
 * Prints the share of one processor, and how often a second threads went to sleep: over some seconds, so that the start and end
 * of the measurement do not count.
 */
async function effort(milliseconds) {
  const start = clock();
  const before = process.resourceUsage();
  await delay(milliseconds);
  const after = process.resourceUsage();
  const elapsed = clock() - start;
  const spent = (name) => after[name] - before[name];
  const processor = (spent('userCPUTime') + spent('systemCPUTime')) / 1000 / elapsed;
  const sleeps = (1000 * spent('voluntaryContextSwitches')) / elapsed;
  console.log(JSON.stringify({ processor, sleeps }));
  process.exit(0);
}

const scenarios = {
  exit: () => process.exit(5),
  async cpu(lock) {
    // Blocked threads and pending acquisitions, past the first milliseconds.
    for (let i = 0; i < 1000; i++) void lock.acquire('key', FOR_EVER);
    await delay(100);
    return effort(1000);
  },
  async longCpu() {
    await delay(LONG);
    return effort(3000);
  },
};

async function main(scenario, threads = '8', how = 'lock') {
  const lock = new StripedLock({ engine: 'native' });
  lock.acquireSync('key');
  const asleep = new Int32Array(new SharedArrayBuffer(8));
  const workers = Array.from({ length: Number(threads) }, (_, i) => {
    // Some hold what others wait for if both are on the same stripe.
    return new Worker(new URL(import.meta.url), {
      workerData: { handle: lock.handle, own: `own-${i}`, how, asleep },
    });
  });
  const blocked = () => (how === 'atomics' ? Atomics.load(asleep, 0) : lock.stats().waiting);
  while (blocked() < workers.length) await delay(1);
  // They sleep by now and do not spin any more.
  await delay(50);
  if (scenario === 'exit') writeSync(1, `${clock()}\n`);
  return scenarios[scenario](lock, workers);
}

if (isMainThread) {
  await main(...process.argv.slice(2));
} else if (workerData.how === 'atomics') {
  Atomics.add(workerData.asleep, 0, 1);
  Atomics.wait(workerData.asleep, 1, 0);
} else {
  const lock = StripedLock.from(workerData.handle);
  lock.acquireSync(workerData.own, FOR_EVER);
  lock.acquireSync('key', FOR_EVER);
}
