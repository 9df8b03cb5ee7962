// Two threads each make a lock before they get the other's handle. So they have an arena each, and use both locks.
// Prints the number of arenas, and the counters that the locks protect.
import { once } from 'node:events';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { StripedLock } from 'stripelock';

const ROUNDS = 100_000;

/** Counts under each lock in turn, in plain memory. */
function count(locks, cells) {
  for (let i = 0; i < ROUNDS; i++) {
    const which = i & 1;
    const guard = locks[which].acquireSync(i);
    cells[which]++;
    guard.release();
  }
}

if (isMainThread) {
  const cells = new Int32Array(new SharedArrayBuffer(8));
  const worker = new Worker(new URL(import.meta.url), { workerData: cells });
  const [theirs] = await once(worker, 'message');
  const ours = new StripedLock({ stripes: 1 });
  const locks = [ours, StripedLock.from(theirs)];
  // A line of the arena that no table uses.
  const [mine, other] = [ours.handle, theirs].map(({ arena }) => new Int32Array(arena.buffer));
  mine[8] = 1;
  const arenas = other[8] === 1 ? 1 : 2;
  worker.postMessage(ours.handle);
  count(locks, cells);
  await once(worker, 'exit');
  console.log(JSON.stringify({ arenas, counted: [...cells], expected: ROUNDS }));
} else {
  const own = new StripedLock({ stripes: 1 });
  parentPort.postMessage(own.handle);
  const [handle] = await once(parentPort, 'message');
  count([StripedLock.from(handle), own], workerData);
  parentPort.close();
}
