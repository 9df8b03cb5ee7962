// A worker and its own worker make locks. Prints whether all are in the main thread's arena.
import { once } from 'node:events';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { StripedLock } from 'stripelock';

const { handle } = new StripedLock({ stripes: 1 });
// A word of the arena's first line, which no table uses.
const words = new Int32Array(handle.arena.buffer, 32, 1);
if (isMainThread) words[0] = 77;
const found = [words[0], handle.offset];
const level = workerData ?? 0;
const below = [];
if (level < 2) {
  const worker = new Worker(new URL(import.meta.url), { workerData: level + 1 });
  below.push(...(await once(worker, 'message'))[0]);
}
const all = [found, ...below];
if (isMainThread) console.log(JSON.stringify(all));
else parentPort.postMessage(all);
