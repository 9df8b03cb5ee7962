// Argument: the URL of a server. Renews a lease in the background, closes everything, and ends by itself.
import { LeaseManager } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';

const store = redisLeaseStore({ url: process.argv[2] });
const terms = { ttl: 2000, renew: { background: true, every: 50 }, maxHold: 60_000 };
const manager = new LeaseManager({ store, ...terms });
const lease = await manager.acquire('key', { timeout: 20_000 });
const { expiresAt } = lease;
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
console.log(lease.held, lease.expiresAt > expiresAt);
await manager.close();
await store.close();
