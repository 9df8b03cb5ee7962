// Leases on the memory store.
//
// `run(times)` does one row's operation that many times, one after the other, and is awaited once. `prepare`, where there
// is one, is awaited once before, untimed, and `dispose` after. Ratios to the floor row are what counts.

import { LeaseManager, MemoryLeaseStore } from 'stripelock';

const KEY = 'job:nightly';
const TTL = 30_000;
const MANY = 1_000_000;

const floor = () => ({
  name: 'floor: await of a settled promise',
  async run(times) {
    for (let i = 0; i < times; i++) await Promise.resolve();
  },
});

function acquireAndRelease(name, options) {
  const manager = new LeaseManager({ ttl: TTL, ...options });
  return {
    name,
    async run(times) {
      for (let i = 0; i < times; i++) {
        const lease = await manager.acquire(KEY);
        await lease.release();
      }
    },
    dispose: () => manager.close(),
  };
}

function storeAcquireAndRelease() {
  const store = new MemoryLeaseStore();
  return {
    name: 'store alone: tryAcquire + release',
    async run(times) {
      for (let i = 0; i < times; i++) {
        await store.tryAcquire(KEY, 'owner', TTL);
        await store.release(KEY, 'owner');
      }
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
    async run(times) {
      for (let i = 0; i < times; i++) await lease.renew();
    },
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
    async run(times) {
      for (let i = 0; i < times; i++) {
        next = (next + 7919) % MANY;
        const lease = await manager.acquire(`free:${next}`);
        await lease.release();
      }
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
    async run(times) {
      for (let i = 0; i < times; i++) await store.tryAcquire(`once:${next++}`, 'owner', 1);
    },
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
