// Ends, by process.exit() or otherwise, while eight threads are blocked. Prints the time just before, or, for
// `cpu`, what processor time it takes to be blocked for a second.
import { writeSync } from 'node:fs';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { StripedLock } from 'stripelock';
import { clock } from '../workers/clock.mjs';

const PARKED = 8;
const FOR_EVER = { timeout: Infinity };

const scenarios = {
  exit: () => process.exit(5),
  throw: () => {
    throw new Error('the end of the main thread, on purpose');
  },
};

async function processorTime(lock) {
  // Blocked threads and pending acquisitions, past the first milliseconds.
  for (let i = 0; i < 1000; i++) void lock.acquire('key', FOR_EVER);
  await delay(100);
  const start = clock();
  const before = process.cpuUsage();
  await delay(1000);
  const { user, system } = process.cpuUsage(before);
  console.log((user + system) / 1000 / (clock() - start));
  process.exit(0);
}

async function main(scenario) {
  const lock = new StripedLock({ engine: 'native' });
  lock.acquireSync('key');
  const workers = Array.from({ length: PARKED }, (_, i) => {
    // Some hold what others of them could wait for.
    return new Worker(new URL(import.meta.url), { workerData: { handle: lock.handle, own: `own-${i}` } });
  });
  await Promise.all(workers.map((worker) => once(worker, 'online')));
  while (lock.stats().waiting < PARKED) await delay(1);
  // Asleep, not spinning any more.
  await delay(50);
  if (scenario === 'cpu') return processorTime(lock);
  writeSync(1, `${clock()}\n`);
  return scenarios[scenario]();
}

if (isMainThread) {
  await main(process.argv[2]);
} else {
  const lock = StripedLock.from(workerData.handle);
  lock.acquireSync(workerData.own);
  lock.acquireSync('key', FOR_EVER);
}
