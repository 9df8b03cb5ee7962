// Takes the first native lock of the main thread and of a worker, where a diagnostic report throws. Prints for each
// thread the engine and the number of reports that were requested.
import { once } from 'node:events';
import { Worker, isMainThread, parentPort } from 'node:worker_threads';

let reports = 0;
for (const method of ['getReport', 'writeReport']) {
  process.report[method] = () => {
    reports++;
    throw new Error('a report looks up the name of every open socket');
  };
}
const { StripedLock } = await import('stripelock');
const lock = new StripedLock({ engine: 'native' });
lock.acquireSync('key').release();
const own = [lock.engine, reports];
if (isMainThread) {
  const [theirs] = await once(new Worker(new URL(import.meta.url)), 'message');
  console.log(JSON.stringify([own, theirs]));
} else {
  parentPort.postMessage(own);
}
