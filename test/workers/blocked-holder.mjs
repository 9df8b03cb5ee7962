// Takes a lease that is renewed in the background, and blocks its thread for good.
import { parentPort, workerData } from 'node:worker_threads';
import { LeaseManager } from 'stripelock';
import { openLeaseStore } from '../support/open-lease-store.mjs';

const { place, ttl } = workerData;
const { store } = await openLeaseStore(place);
const manager = new LeaseManager({ store, ttl, renew: { background: true }, maxHold: 600_000 });
await manager.acquire('key', { timeout: 20_000 });
parentPort.postMessage('held');
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
