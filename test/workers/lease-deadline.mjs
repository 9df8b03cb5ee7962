// Compares a thread's own deadline of a lease with the time of its request, and with the time left in the store.
import { parentPort, workerData } from 'node:worker_threads';
import { LeaseManager, MemoryLeaseStore } from 'stripelock';

const { handle, ttl } = workerData;
const store = MemoryLeaseStore.from(handle);
const manager = new LeaseManager({ store, ttl });
const before = performance.now();
const lease = await manager.acquire('key of a thread');
const sinceAsked = lease.expiresAt - before;
const remaining = lease.expiresAt - performance.now();
const { remaining: inStore } = await store.inspect('key of a thread');
const remainingThen = lease.expiresAt - performance.now();
await lease.release();
parentPort.postMessage({ sinceAsked, remaining, inStore, remainingThen });
