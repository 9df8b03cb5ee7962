import { setTimeout as delay } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { FencingGate, MemoryLeaseStore, StripedLock } from 'stripelock';
import { seedFor } from '../support/seed.js';
import { startThread } from '../support/threads.js';

/** A longer run, of a minute, shows more: STRIPELOCK_LEASE_SECONDS=60. */
const SECONDS = Number(process.env['STRIPELOCK_LEASE_SECONDS'] ?? 4);
const THREADS = 4;
const KEYS = 2;
/** The index of the number of refused writes in the shared state. */
const REFUSED = 1;

it(
  'counters guarded by leases accept no stale token, while threads pause and are terminated',
  async () => {
    const seed = seedFor('counter');
    const cells = new SharedArrayBuffer(8 * (8 + 2 * KEYS));
    const state = new BigInt64Array(cells);
    const shared = {
      store: new MemoryLeaseStore().handle,
      gate: new FencingGate().handle,
      lock: new StripedLock().handle,
      cells,
      ttl: 30,
      keys: KEYS,
    };
    let started = 0;
    const start = (): Worker =>
      startThread('lease-counter.mjs', { ...shared, seed: seed + started++ }).on('error', (error) => {
        throw error;
      });
    const workers = Array.from({ length: THREADS }, start);
    const end = performance.now() + SECONDS * 1000;
    // If no pause had cost a lease, the test would have proved nothing.
    while (performance.now() < end || Atomics.load(state, REFUSED) === 0n) {
      await delay(200 + Math.random() * 300);
      const victim = Math.floor(Math.random() * THREADS);
      await workers[victim]!.terminate();
      workers[victim] = start();
    }
    await Promise.all(workers.map((worker) => worker.terminate()));
    const [accepted, refused, violations] = state;
    console.log(`${accepted} writes accepted, ${refused} refused, by ${started} threads`);
    expect(violations).toBe(0n);
    expect(Number(accepted)).toBeGreaterThan(20);
    expect(Number(refused)).toBeGreaterThan(0);
    const counted = Array.from({ length: KEYS }, (_, key) => state[8 + 2 * key + 1]!);
    expect(counted.reduce((sum, count) => sum + count)).toBe(accepted);
  },
  (SECONDS + 60) * 1000,
);
