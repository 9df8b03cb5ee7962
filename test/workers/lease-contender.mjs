// Asks for a key again and again until it is granted. Then writes the time, on the clock that all threads share, to
// shared memory, and releases it.
import { setTimeout as delay } from 'node:timers/promises';
import { workerData } from 'node:worker_threads';
import { openLeaseStore } from '../support/open-lease-store.mjs';

const { place, granted } = workerData;
const { store, close } = await openLeaseStore(place);
const times = new BigInt64Array(granted);
while ((await store.tryAcquire('key', 'contender', 60_000)) === undefined) await delay(5);
Atomics.store(times, 0, process.hrtime.bigint());
await store.release('key', 'contender');
await close();
