// Run with --expose-gc. A shared lease is no longer referenced, while another reader renews the lease of the group. Prints
// whether the forgotten reader leaves the group.
import { setTimeout as delay } from 'node:timers/promises';
import { LeaseManager, MemoryLeaseStore } from 'stripelock';

const SHARED = { mode: 'shared' };
let warned;
process.on('warning', ({ code }) => (warned = code));

const store = new MemoryLeaseStore();
const left = [];
const releaseShared = store.releaseShared.bind(store);
store.releaseShared = async (key, reader) => {
  const wasIn = await releaseShared(key, reader);
  left.push(wasIn);
  return wasIn;
};
const kept = await new LeaseManager({ store }).acquire('key', SHARED);
const manager = new LeaseManager({ store, ttl: 1500 });
// In a separate function, so that no register keeps the lease.
await (async () => void (await manager.acquire('key', SHARED)))();
while (left.length === 0) {
  globalThis.gc();
  await delay(50);
}
const held = kept.held;
await kept.release();
console.log(
  JSON.stringify({ warned, held, left: left[0], free: (await store.inspect('key')) === undefined }),
);
