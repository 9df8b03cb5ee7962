// Reads and writes under leases of one store, beside another thread that does the same. `counts`: the readers and writers of
// all threads now, the violations of exclusion, and the most readers at once.
import { setImmediate as turn } from 'node:timers/promises';
import { workerData } from 'node:worker_threads';
import { LeaseManager } from 'stripelock';
import { openLeaseStore } from '../support/open-lease-store.mjs';

const [READERS, WRITERS, VIOLATIONS, MOST] = [0, 1, 2, 3];
const ROUNDS = 60;

const { place, counts: memory } = workerData;
const { store } = await openLeaseStore(place);
const counts = new Int32Array(memory);
const manager = new LeaseManager({ store, backoff: { initial: 2, max: 10 } });

async function read() {
  for (let i = 0; i < ROUNDS; i++) {
    await manager.withLease('key', { mode: 'shared', timeout: 60_000 }, async () => {
      const readers = Atomics.add(counts, READERS, 1) + 1;
      if (readers > Atomics.load(counts, MOST)) Atomics.store(counts, MOST, readers);
      if (Atomics.load(counts, WRITERS) > 0) Atomics.add(counts, VIOLATIONS, 1);
      await turn();
      if (Atomics.load(counts, WRITERS) > 0) Atomics.add(counts, VIOLATIONS, 1);
      Atomics.sub(counts, READERS, 1);
    });
  }
}

async function write() {
  for (let i = 0; i < ROUNDS; i++) {
    await manager.withLease('key', { timeout: 60_000 }, async () => {
      if (Atomics.add(counts, WRITERS, 1) > 0) Atomics.add(counts, VIOLATIONS, 1);
      if (Atomics.load(counts, READERS) > 0) Atomics.add(counts, VIOLATIONS, 1);
      await turn();
      if (Atomics.load(counts, READERS) > 0) Atomics.add(counts, VIOLATIONS, 1);
      Atomics.sub(counts, WRITERS, 1);
    });
  }
}

await Promise.all([read(), read(), read(), write()]);
await manager.close();
