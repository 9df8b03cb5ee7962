import { parentPort, workerData } from 'node:worker_threads';
import { MemoryLeaseStore } from 'stripelock';

const { handle, ttl } = workerData;
const store = handle ? MemoryLeaseStore.from(handle) : new MemoryLeaseStore();
const token = await store.tryAcquire('key', 'ended', ttl);
parentPort.postMessage(handle ? token : store.handle);
