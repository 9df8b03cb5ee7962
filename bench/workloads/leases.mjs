// Leases on the memory store.
//
// How they are measured: each row has `run`, which is one operation and is awaited; time many in a row, in one thread
// (as async rows are), and divide by their number. `prepare`, where there is one, is awaited once before, untimed, and
// `dispose` after. Ratios to the floor row, the await of a settled promise, are what counts: acquire and release with
// renewal off together stay below ten of those.

import { LeaseManager, MemoryLeaseStore } from 'stripelock';

const KEY = 'job:nightly';
const TTL = 30_000;
const MANY = 1_000_000;

const floor = () => ({ name: 'floor: await of a settled promise', run: () => Promise.resolve() });

/** Awaits inside, as callers do: one acquisition, one release. */
function acquireAndRelease(name, options) {
  const manager = new LeaseManager({ ttl: TTL, ...options });
  return {
    name,
    async run() {
      const lease = await manager.acquire(KEY);
      await lease.release();
    },
    dispose: () => manager.close(),
  };
}

function storeAcquireAndRelease() {
  const store = new MemoryLeaseStore();
  return {
    name: 'store alone: tryAcquire + release',
    async run() {
      await store.tryAcquire(KEY, 'owner', TTL);
      await store.release(KEY, 'owner');
    },
  };
}

function renewal(name, heldBesides) {
  const manager = new LeaseManager({ ttl: TTL, renew: false });
  let lease;
  return {
    name,
    async prepare() {
      for (let i = 0; i < heldBesides; i++) await manager.store.tryAcquire(`held:${i}`, 'other', 10 * TTL);
      lease = await manager.acquire(KEY);
    },
    run: () => lease.renew(),
    dispose: () => manager.close(),
  };
}

/** Every operation on a key of its own, while a million others are held: no part of the table is in a cache. */
function amongMany() {
  const store = new MemoryLeaseStore();
  const manager = new LeaseManager({ store, ttl: TTL, renew: false });
  let next = 0;
  return {
    name: `acquire + release of other keys among ${MANY.toLocaleString('en')} held ones`,
    async prepare() {
      for (let i = 0; i < MANY; i++) await store.tryAcquire(`held:${i}`, 'other', 100 * TTL);
    },
    async run() {
      next = (next + 7919) % MANY;
      const lease = await manager.acquire(`free:${next}`);
      await lease.release();
    },
    dispose: () => manager.close(),
  };
}

/** Leased once and never released: what sweeping the expired costs. */
function leasedOnce() {
  const store = new MemoryLeaseStore();
  let next = 0;
  return {
    name: 'tryAcquire of a new key each time, for 1 ms, never released',
    run: () => store.tryAcquire(`once:${next++}`, 'owner', 1),
  };
}

export const leases = [
  {
    name: 'lease, uncontended: await acquire + await release',
    async: true,
    rows: () => [
      floor(),
      acquireAndRelease('renewal off', { renew: false }),
      acquireAndRelease('renewal on', {}),
      storeAcquireAndRelease(),
    ],
  },
  {
    name: 'lease, renew',
    async: true,
    rows: () => [
      floor(),
      renewal('one lease', 0),
      renewal(`among ${MANY.toLocaleString('en')} held ones`, MANY),
    ],
  },
  {
    name: 'lease, many keys',
    async: true,
    rows: () => [floor(), amongMany(), leasedOnce()],
  },
];
