// @ts-check
// Holds a key until it gets a message, or waits for a key; then releases the key and ends.
import { once } from 'node:events';
import { parentPort, workerData } from 'node:worker_threads';
import { LeaseManager } from 'stripelock';
import { openLeaseStore } from '../support/open-lease-store.mjs';

/** @type {{ place: import('../support/open-lease-store.mjs').Place, name: string, key: string, holds: boolean }} */
const { place, name, key, holds } = workerData;
const { store, close } = await openLeaseStore(place);
const leases = new LeaseManager({ store, name });

/** @param {import('stripelock').Lease} lease */
async function releasesInThread(lease) {
  await lease.release();
}

async function waitsInThread() {
  return leases.acquire(key, { timeout: 30_000 });
}

if (holds) {
  const lease = await leases.acquire(key);
  parentPort?.postMessage('held');
  await once(/** @type {import('node:worker_threads').MessagePort} */ (parentPort), 'message');
  await releasesInThread(lease);
} else {
  await releasesInThread(await waitsInThread());
}
await leases.close();
await close();
