// @ts-check
// Holds a lease and a web lock, waits for another of each, posts a message, and ends on request: at the end of its code, or
// blocked. Its event loop does not run in between if it blocks.
import { parentPort, workerData } from 'node:worker_threads';
import { LeaseManager, MemoryLeaseStore } from 'stripelock';
import { locks } from 'stripelock/web-locks';

/** @type {{ handle: import('stripelock').MemoryLeaseStore['handle'], name: string, until: Int32Array, blocks: boolean }} */
const { handle, name, until, blocks } = workerData;
const leases = new LeaseManager({ store: MemoryLeaseStore.from(handle), name });

await leases.acquire('held by the thread');
void leases.acquire('held by main', { timeout: Infinity });
void locks.request('held by the thread', () => new Promise(() => undefined));
await new Promise((resolve) => setImmediate(resolve));
void locks.request('held by main', () => undefined);
await new Promise((resolve) => setImmediate(resolve));
parentPort?.postMessage('ready');
if (blocks) Atomics.wait(until, 0, 0);
else await Atomics.waitAsync(until, 0, 0).value;
process.exit();
