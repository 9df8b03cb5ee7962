// Takes permits of one key again and again. Counts, in shared memory, its grants, and what two holders of a slot show: a
// higher token while its own is still held.
import { setTimeout as delay } from 'node:timers/promises';
import { workerData } from 'node:worker_threads';
import { LeaseManager, MemoryLeaseStore } from 'stripelock';

const { store, cells, limit, me, ttl } = workerData;
const leases = new LeaseManager({ store: MemoryLeaseStore.from(store), ttl });
const grants = new Int32Array(cells, 0, 16);
const violations = new Int32Array(cells, 64, 1);
/** The highest of each slot. */
const tokens = new BigInt64Array(cells, 128, limit);

function raise(slot, token) {
  for (let highest = Atomics.load(tokens, slot); highest < token;) {
    highest = Atomics.compareExchange(tokens, slot, highest, token);
  }
}

for (;;) {
  await leases.withLease('key', { limit, timeout: 30_000 }, async (lease) => {
    const { slot, token } = lease;
    raise(slot, token);
    if (Atomics.add(grants, me, 1) % 16 === 0) await delay(1);
    // A holder that was paused for longer than the TTL has lost it, and knows that.
    if (Atomics.load(tokens, slot) !== token && lease.held) Atomics.add(violations, 0, 1);
  });
}
