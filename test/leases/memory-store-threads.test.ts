import { afterAll, describe, expect, it } from 'vitest';
import { MemoryLeaseStore } from 'stripelock';
import { leaseStoreContract } from 'stripelock/testing';
import { ThreadStore } from './thread-store.js';

const open: ThreadStore[] = [];
afterAll(() => Promise.all(open.map((store) => store.close())));

function peersOf(store: MemoryLeaseStore, time?: Float64Array): ThreadStore[] {
  const peers = [new ThreadStore(store, time), new ThreadStore(store, time)];
  open.push(...peers);
  return peers;
}

async function closeAll(peers: readonly ThreadStore[]): Promise<void> {
  await Promise.all(peers.map((peer) => peer.close()));
}

leaseStoreContract({ describe, it, expect }, 'memory store in three threads', async () => {
  const store = new MemoryLeaseStore();
  const peers = peersOf(store);
  // Threads that are still starting would use up the measured time.
  await Promise.all(peers.map((peer) => peer.inspect('key')));
  return { store, peers, dispose: () => closeAll(peers) };
});

leaseStoreContract({ describe, it, expect }, 'memory store in three threads, on one fixed clock', () => {
  const time = new Float64Array(new SharedArrayBuffer(8));
  const store = new MemoryLeaseStore({ clock: { now: () => time[0]! } });
  const peers = peersOf(store, time);
  return {
    store,
    peers,
    advance: (milliseconds) => void (time[0]! += milliseconds),
    dispose: () => closeAll(peers),
  };
});
