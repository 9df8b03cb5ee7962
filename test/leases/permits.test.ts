import { setTimeout as delay } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { LeaseManager, MemoryLeaseStore } from 'stripelock';
import { startThread } from '../support/threads.js';
import { FaultyStore, gate } from './faulty-store.js';

/** Pauses that outlast every test: a waiter that is granted earlier was woken. */
const NEVER = { initial: 50_000, max: 50_000, jitter: 0 };
const WAITS = { timeout: 40_000 };

it.each([0, 1.5, 1001, -1, NaN])('refuses the limit %s, and takes nothing', async (limit) => {
  const leases = new LeaseManager();
  await expect(leases.acquire('key', { limit })).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
  await expect(leases.tryAcquire('key', { limit: '2' as never })).rejects.toMatchObject({
    code: 'ERR_INVALID_ARG_TYPE',
  });
  expect(await leases.store.inspect('key')).toBe(undefined);
});

it('refuses a limit for several keys, or none, and takes nothing', async () => {
  const leases = new LeaseManager();
  for (const keys of [['a', 'b'], []]) {
    await expect(leases.acquire(keys, { limit: 2 })).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
  }
  expect((await leases.acquire(['a', 'b'], { limit: 1 })).slot).toBe(0);
  // A manager has none: it would be easy to forget that it is there.
  expect(() => new LeaseManager({ limit: 2 } as never)).toThrow(
    expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }),
  );
});

for (const [kind, makeStore] of [
  ['in memory', () => new MemoryLeaseStore()],
  ['over a store that is asked', () => new FaultyStore()],
] as const) {
  it(`serves waiters ${kind} in order of arrival`, async () => {
    const leases = new LeaseManager({ store: makeStore() });
    const held = [await leases.acquire('key', { limit: 2 }), await leases.acquire('key', { limit: 2 })];
    const served: number[] = [];
    const waiting = Array.from({ length: 20 }, (_, i) =>
      leases.withLease('key', { limit: 2, ...WAITS }, () => served.push(i)),
    );
    await delay(5);
    for (const lease of held) await lease.release();
    await Promise.all(waiting);
    expect(served).toEqual(Array.from({ length: 20 }, (_, i) => i));
  });

  it(`does not let a smaller limit block a greater one ${kind}`, async () => {
    const leases = new LeaseManager({ store: makeStore(), backoff: NEVER });
    const first = await leases.acquire('key');
    expect(first.slot).toBe(0);
    const waiting = leases.acquire('key', WAITS);
    const other = await leases.acquire('key', { limit: 3, ...WAITS });
    expect(other.slot).toBeGreaterThan(0);
    await first.release();
    expect((await waiting).slot).toBe(0);
  });

  it(`gives acquisitions of a reentrant manager a slot each ${kind}`, async () => {
    const leases = new LeaseManager({ store: makeStore(), reentrant: true, backoff: NEVER });
    const held = [await leases.acquire('key', { limit: 2 }), await leases.acquire('key', { limit: 2 })];
    expect(held.map(({ slot, users }) => `${slot} ${users}`).sort()).toEqual(['0 1', '1 1']);
    const waiting = leases.acquire('key', { limit: 2, ...WAITS });
    await delay(5);
    expect(await held[1]!.release()).toBe(true);
    expect((await waiting).slot).toBe(held[1]!.slot);
  });

  it(`does not let a reentrant acquisition without a limit join a permit ${kind}`, async () => {
    const leases = new LeaseManager({ store: makeStore(), reentrant: true, backoff: NEVER });
    const permits = [await leases.acquire('key', { limit: 2 }), await leases.acquire('key', { limit: 2 })];
    permits.sort((one, other) => one.slot - other.slot);
    for (const keys of ['key', 'key#slot1', ['key', 'other']]) {
      expect(await leases.tryAcquire(keys)).toBe(undefined);
    }
    const waiting = leases.acquire('key', WAITS);
    await delay(5);
    expect(permits.map(({ users }) => users)).toEqual([1, 1]);
    expect(await permits[0]!.release()).toBe(true);
    const lease = await waiting;
    expect(lease.token).toBeGreaterThan(permits[0]!.token);
    expect(await leases.tryAcquire('key', { limit: 2 })).toBe(undefined);
    expect((await leases.acquire('key')).users).toBe(2);
    await leases.close();
  });

  it(`does not queue a key with the name of a slot behind the waiters for the slot's key ${kind}`, async () => {
    const leases = new LeaseManager({ store: makeStore(), backoff: NEVER });
    for (let i = 0; i < 2; i++) await leases.acquire('key', { limit: 2 });
    const waiting = leases.acquire('key', { limit: 2, ...WAITS });
    await delay(5);
    // Slot 1 of "key" is its slot 0, and held. Its own slot 1 is free.
    const lease = await leases.acquire('key#slot1', { limit: 2, ...WAITS });
    expect([lease.key, lease.slot]).toEqual(['key#slot1', 1]);
    expect((await leases.store.inspect('key#slot1#slot1'))?.token).toBe(lease.token);
    await Promise.all([expect(waiting).rejects.toThrow('closed'), leases.close()]);
  });

  it(`takes a lease of a slot's key for that slot ${kind}`, async () => {
    const leases = new LeaseManager({ store: makeStore(), backoff: NEVER });
    const slot = await leases.acquire('key#slot1');
    const permit = await leases.acquire('key', { limit: 2 });
    expect(permit.slot).toBe(0);
    expect(await leases.tryAcquire('key', { limit: 2 })).toBe(undefined);
    const waiting = leases.acquire('key', { limit: 2, ...WAITS });
    await delay(5);
    await slot.release();
    expect((await waiting).slot).toBe(1);
    await leases.close();
  });

  it(`keeps a slot for its minHold ${kind}, and gives another`, async () => {
    const leases = new LeaseManager({ store: makeStore() });
    const first = await leases.acquire('key', { limit: 2, minHold: 60_000 });
    await first.release();
    const second = await leases.acquire('key', { limit: 2 });
    expect(second.slot).toBe(1 - first.slot);
    expect(await leases.tryAcquire('key', { limit: 2 })).toBe(undefined);
  });

  it(`takes one of the slots ${kind} that a signal ended the wait for`, async () => {
    const leases = new LeaseManager({ store: makeStore() });
    const held = [await leases.acquire('key', { limit: 2 }), await leases.acquire('key', { limit: 2 })];
    const controller = new AbortController();
    const waiting = leases.acquire('key', { limit: 2, signal: controller.signal, ...WAITS });
    controller.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    for (const lease of held) await lease.release();
    const again = [await leases.acquire('key', { limit: 2 }), await leases.acquire('key', { limit: 2 })];
    expect(new Set(again.map(({ slot }) => slot)).size).toBe(2);
  });
}

it('asks a store once if slots are free, and stops asking when its caller gives up', async () => {
  const store = new FaultyStore();
  const leases = new LeaseManager({ store });
  await leases.withLease('key', { limit: 100 }, () => undefined);
  expect(store.count('tryAcquire')).toBe(1);
  const hangs = gate();
  const controller = new AbortController();
  const held = [await leases.acquire('full', { limit: 2 }), await leases.acquire('full', { limit: 2 })];
  const before = store.count('tryAcquire');
  store.before.tryAcquire = hangs.pass;
  const waiting = leases.acquire('full', { limit: 2, signal: controller.signal });
  await expect.poll(() => store.count('tryAcquire')).toBe(before + 1);
  controller.abort();
  await expect(waiting).rejects.toThrow();
  hangs.open();
  await leases.close();
  expect(store.count('tryAcquire')).toBe(before + 1);
  expect(held.some((lease) => lease.held)).toBe(false);
});

it('asks a store once for each permit that is free, and once for each that is not', async () => {
  const store = new FaultyStore();
  await store.inner.tryAcquire('key#slot3', 'somebody else', 60_000);
  const leases = new LeaseManager({ store, backoff: NEVER });
  const all = Array.from({ length: 20 }, () => leases.acquire('key', { limit: 20, ...WAITS }));
  const slots = (await Promise.all(all.slice(0, 19))).map(({ slot }) => slot);
  expect(new Set(slots).size).toBe(19);
  expect(store.count('tryAcquire')).toBeGreaterThanOrEqual(19);
  expect(store.count('tryAcquire')).toBeLessThanOrEqual(20);
  await Promise.all([
    expect(all[19]).rejects.toMatchObject({ code: 'ERR_LEASE_MANAGER_CLOSED' }),
    leases.close(),
  ]);
});

it('uses another slot if the store fails for one, and reports the failure if it fails for more', async () => {
  const bad = new Set(['key#slot1']);
  class PartlyBadStore extends FaultyStore {
    override tryAcquire(key: string, owner: string, ttl: number): Promise<bigint | undefined> {
      return bad.has(key) ? Promise.reject(new Error('not a lease')) : super.tryAcquire(key, owner, ttl);
    }
  }
  const leases = new LeaseManager({ store: new PartlyBadStore(), backoff: NEVER });
  // Each begins with a slot that chance decides.
  for (let i = 0; i < 30; i++) {
    const held = [await leases.tryAcquire('key', { limit: 3 }), await leases.acquire('key', { limit: 3 })];
    expect(new Set(held.map((lease) => lease?.slot))).toEqual(new Set([0, 2]));
    await expect(leases.tryAcquire('key', { limit: 3 })).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    for (const lease of held) await lease!.release();
  }
  bad.add('key').add('key#slot2');
  await expect(leases.tryAcquire('key', { limit: 3 })).rejects.toThrow('not a lease');
});

it('asks only for the slot whose release was reported', async () => {
  const inner = new FaultyStore();
  const listeners = new Map<string, () => void>();
  const asked: string[] = [];
  const store = {
    tryAcquire: (key: string, owner: string, ttl: number) => {
      asked.push(key);
      return inner.tryAcquire(key, owner, ttl);
    },
    renew: inner.renew.bind(inner),
    release: inner.release.bind(inner),
    inspect: inner.inspect.bind(inner),
    onRelease: (key: string, listener: () => void) => {
      listeners.set(key, listener);
      return () => listeners.delete(key);
    },
  };
  const names = ['key', 'key#slot1', 'key#slot2'];
  for (const name of names) await inner.tryAcquire(name, 'somebody else', 60_000);
  const leases = new LeaseManager({ store, backoff: NEVER });
  const waiting = leases.acquire('key', { limit: 3, ...WAITS });
  await expect.poll(() => listeners.size).toBe(3);
  expect([...asked].sort()).toEqual(names);
  await inner.release('key#slot2', 'somebody else');
  listeners.get('key#slot2')!();
  const lease = await waiting;
  expect(asked.slice(3)).toEqual(['key#slot2']);
  expect([lease.key, lease.slot, lease.keys, [...lease.tokens.keys()]]).toEqual(['key', 2, ['key'], ['key']]);
  expect(listeners.size).toBe(0);
  await lease.release();
});

it('shares permits fairly among threads that are terminated', { timeout: 120_000 }, async () => {
  const [limit, threads, ttl] = [3, 6, 60];
  const cells = new SharedArrayBuffer(512);
  const [grants, violations] = [new Int32Array(cells, 0, 16), new Int32Array(cells, 64, 1)];
  const store = new MemoryLeaseStore().handle;
  const start = (me: number): Worker =>
    startThread('lease-permits.mjs', { store, cells, limit, ttl, me }).on('error', (error) => {
      throw error;
    });
  const workers = Array.from({ length: threads }, (_, i) => start(i + 1));
  for (let i = 0; i < 10; i++) {
    await delay(150);
    const victim = i % (threads - 1);
    await workers[victim]!.terminate();
    workers[victim] = start(victim + 1);
  }
  // Each goes on, and nobody waits for ever.
  for (let i = 1; i <= threads; i++) {
    const before = Atomics.load(grants, i);
    await expect.poll(() => Atomics.load(grants, i), { timeout: 30_000 }).toBeGreaterThan(before + 5);
  }
  await Promise.all(workers.map((worker) => worker.terminate()));
  expect(violations[0]).toBe(0);
});
