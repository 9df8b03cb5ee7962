// Adds to a counter under a lease. Now and then it pauses for longer than the lease lasts, like a process that is
// stopped or collects garbage. The gate and the counter are one step: nothing is awaited between them, and the lock
// keeps other threads out.
import { workerData } from 'node:worker_threads';
import { FencingGate, LeaseManager, MemoryLeaseStore, StaleTokenError, StripedLock } from 'stripelock';
import { randomFrom } from './random.mjs';

const { store, gate: gateHandle, lock: lockHandle, cells, ttl, seed, keys } = workerData;
const manager = new LeaseManager({ store: MemoryLeaseStore.from(store), ttl });
const gate = FencingGate.from(gateHandle);
const lock = StripedLock.from(lockHandle);
const random = randomFrom(seed);
const [ACCEPTED, REFUSED, VIOLATIONS] = [0, 1, 2];
const state = new BigInt64Array(cells);
const sleeper = new Int32Array(new SharedArrayBuffer(4));
const pause = (milliseconds) => Atomics.wait(sleeper, 0, 0, milliseconds);
/** Per key: the highest token whose write was accepted, and the counter. */
const tokenCell = (key) => 8 + 2 * key;

function write(key, token) {
  lock.withLockSync(key, () => {
    try {
      gate.admit(`counter ${key}`, token);
    } catch (error) {
      if (!(error instanceof StaleTokenError)) throw error;
      Atomics.add(state, REFUSED, 1n);
      return;
    }
    if (token < state[tokenCell(key)]) Atomics.add(state, VIOLATIONS, 1n);
    state[tokenCell(key)] = token;
    state[tokenCell(key) + 1]++;
    Atomics.add(state, ACCEPTED, 1n);
  });
}

for (;;) {
  const key = Math.floor(random() * keys);
  try {
    await manager.withLease(`counter ${key}`, { timeout: 1000 }, async (lease) => {
      write(key, lease.token);
      const luck = random();
      if (luck < 0.05) pause(ttl * (0.5 + random() * 2));
      else if (luck < 0.3) await new Promise((resolve) => setTimeout(resolve, random() * ttl));
      // A late write, without asking whether the lease is held: the gate decides.
      write(key, lease.token);
    });
  } catch (error) {
    if (error.code !== 'ERR_LOCK_TIMEOUT') throw error;
  }
}
