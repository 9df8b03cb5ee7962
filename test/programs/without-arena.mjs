// Uses a lock in two threads where WebAssembly is unavailable. Prints the engine, whether there is an arena, and a
// count.
import { once } from 'node:events';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { StripedLock } from 'stripelock';

const ROUNDS = 10_000;

const lock = isMainThread ? new StripedLock({ stripes: 1 }) : StripedLock.from(workerData.handle);
const cells = isMainThread ? new Int32Array(new SharedArrayBuffer(4)) : workerData.cells;
const worker = isMainThread
  ? new Worker(new URL(import.meta.url), { workerData: { handle: lock.handle, cells } })
  : undefined;
for (let i = 0; i < ROUNDS; i++) {
  const guard = lock.acquireSync('key');
  cells[0]++;
  guard.release();
}
if (worker) {
  await once(worker, 'exit');
  const { engine, handle } = lock;
  console.log(JSON.stringify({ engine, arena: handle.arena !== undefined, counted: cells[0] }));
}
