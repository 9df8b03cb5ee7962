// What the workers of the checks do.

import { parentPort, workerData } from 'node:worker_threads';
import { MemoryLeaseStore, LeaseManager, StripedLock } from 'stripelock';

const {
  part,
  handle,
  cells,
  rounds = 0,
  store,
} = /**
  @type {{
    part: keyof typeof parts,
    handle: import('stripelock').StripedLockHandle,
    cells: Int32Array,
    rounds?: number,
    store: object,
  }}
*/ (workerData);

const tell = (/** @type {unknown} */ message) => parentPort?.postMessage(message);

/**
 * Guards that live as long as their thread.
 *
 * @type {unknown[]}
 */
const kept = [];

/** Not atomic, so that two threads inside at once lose counts. */
function increment() {
  const before = cells[0] ?? 0;
  cells[0] = before + 1;
}

/** All begin at once: if one had finished before the others started, the check would prove nothing. */
async function meet() {
  Atomics.add(cells, 1, 1);
  while (Atomics.load(cells, 1) < 3) await new Promise((resolve) => setTimeout(resolve, 0));
}

export const parts = {
  async countSync() {
    const lock = StripedLock.from(handle);
    await meet();
    for (let round = 0; round < rounds; round++) lock.withLockSync('a', increment);
    tell('done');
  },
  async countAsync() {
    const lock = StripedLock.from(handle);
    await meet();
    for (let round = 0; round < rounds; round++) await lock.withLock(['a', 'b'], increment);
    tell('done');
  },
  block() {
    const lock = StripedLock.from(handle);
    tell('about to block');
    lock.acquireSync('a', { timeout: Infinity }).release();
    tell('granted');
  },
  blockAndKeep() {
    tell('about to block');
    kept.push(StripedLock.from(handle).acquireSync('a', { timeout: Infinity }));
  },
  hold() {
    kept.push(StripedLock.from(handle).acquireSync('a'));
    parentPort?.on('message', () => undefined);
    tell('held');
  },
  holdAndEnd() {
    kept.push(StripedLock.from(handle).acquireSync('a'));
    tell('held');
  },
  holdAndExit() {
    kept.push(StripedLock.from(handle).acquireSync('a'));
    parentPort?.on('message', () => process.exit(0));
    tell('held');
  },
  holdShared() {
    const guard = StripedLock.from(handle).acquireSync('a', { mode: 'shared' });
    parentPort?.once('message', () => {
      guard.release();
      tell('released');
    });
    tell('held');
  },
  /** Holds `b`, and blocks for `a`, which the parent holds. */
  cross() {
    const lock = StripedLock.from(handle);
    const guard = lock.acquireSync('b');
    tell('about to block');
    try {
      lock.acquireSync('a', { timeout: 20_000 }).release();
      tell('granted');
    } catch (error) {
      tell(/** @type {{ code: string }} */ (error).code);
    }
    guard.release();
  },
  spin() {
    tell('about to spin');
    for (;;) cells[0] = (cells[0] ?? 0) + 1;
  },
  async lease() {
    const manager = new LeaseManager({ store: MemoryLeaseStore.from(store), ttl: 20_000 });
    const refused = (await manager.tryAcquire('job')) === undefined;
    tell(refused ? 'refused' : 'granted');
    const lease = await manager.acquire('job', { timeout: 20_000 });
    tell(lease.token);
    await manager.close();
    tell('closed');
  },
};

await parts[part]();
