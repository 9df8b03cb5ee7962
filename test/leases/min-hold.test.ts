import { describe, expect, it } from 'vitest';
import { LeaseManager, MemoryLeaseStore, type LeaseStore } from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { keptOwner } from '../../unbundled/lease/contract/lease-store.js';
import { rejectionOf, thrownBy, turns, until, watch } from '../support/waiting.js';
import { failing, FaultyStore, gate } from './faulty-store.js';
import { ownersOf, ways } from './several-stores.js';

const backoff = { initial: 2, max: 20 };
/** Milliseconds: longer than any of these tests takes. */
const LONG = 600_000;

describe.each(ways)('a lease with minHold, taken %s', (_way, make) => {
  it('keeps the key from others after its release, for the rest of the time', async () => {
    const store = make();
    const lease = await new LeaseManager({ store, minHold: LONG }).acquire('key');
    const { signal } = lease;
    expect(await lease.release()).toBe(true);
    expect([lease.held, signal.aborted, await lease.release()]).toEqual([false, false, false]);
    const state = await store.inspect('key');
    expect(state?.owner).toBe(keptOwner(lease.holder));
    // It was asked for 30 s; now it lasts for what is left of ten minutes.
    expect(state!.remaining).toBeGreaterThan(LONG / 2);
    expect(state!.remaining).toBeLessThanOrEqual(LONG * 1.01);
    expect(await new LeaseManager({ store }).tryAcquire('key')).toBeUndefined();
  });

  it('shortens a longer TTL, and then waiters get the key', async () => {
    const store = make();
    const before = performance.now();
    const lease = await new LeaseManager({ store, ttl: LONG }).acquire('key', { minHold: 150 });
    const waiting = new LeaseManager({ store, backoff }).acquire('key', { timeout: 60_000 });
    await turns();
    await lease.release();
    const next = await waiting;
    // Timers of other clocks may be a little early.
    expect(performance.now() - before).toBeGreaterThan(140);
    expect(next.token).toBeGreaterThan(lease.token);
  });

  it('is freed at once if it was held for long enough', async () => {
    const store = make();
    const lease = await new LeaseManager({ store }).acquire('key', { minHold: 5 });
    const start = performance.now();
    await until(() => performance.now() - start > 10, 'the time is over');
    expect(await lease.release()).toBe(true);
    expect(await ownersOf(store, ['key'])).toEqual([undefined]);
  });

  it('keeps all of several keys', async () => {
    const store = make();
    const lease = await new LeaseManager({ store, minHold: LONG }).acquire(['a', 'b']);
    expect(await lease.release()).toBe(true);
    const owner = keptOwner(lease.holder);
    expect(await ownersOf(store, ['a', 'b'])).toEqual([owner, owner]);
  });

  it('keeps the keys that close releases, and after a body that failed', async () => {
    const store = make();
    const manager = new LeaseManager({ store, minHold: LONG });
    const held = await manager.acquire('closed');
    const failure = new Error('the body fails');
    expect(await rejectionOf(manager.withLease('failed', () => Promise.reject(failure)))).toBe(failure);
    await manager.close();
    expect(held.held).toBe(false);
    expect((await ownersOf(store, ['closed', 'failed'])).every((owner) => owner !== undefined)).toBe(true);
  });

  it('reserves no key of a set that was refused', async () => {
    const store = make();
    const other = await new LeaseManager({ store }).acquire('b');
    const manager = new LeaseManager({ store, minHold: LONG, backoff });
    expect(await manager.tryAcquire(['a', 'b'])).toBeUndefined();
    expect(await rejectionOf(manager.acquire(['a', 'b'], { timeout: 50 }))).toMatchObject({
      code: 'ERR_LOCK_TIMEOUT',
    });
    await other.release();
    expect((await new LeaseManager({ store, backoff }).acquire(['a', 'b'], { timeout: 60_000 })).held).toBe(
      true,
    );
  });

  it.each(['reentrant', 'named'])(
    'holds off its own manager, too, where that has one owner: %s',
    async (kind) => {
      const store = make();
      const own = kind === 'named' ? { holder: 'me' } : { reentrant: true };
      const manager = new LeaseManager({ store, minHold: LONG, backoff, ...own });
      await (await manager.acquire('key')).release();
      expect(await manager.tryAcquire('key')).toBeUndefined();
      expect(await manager.tryAcquire(['a', 'key'])).toBeUndefined();
      expect(await ownersOf(store, ['a'])).toEqual([undefined]);
      // As if the program was restarted under the same name.
      expect(await new LeaseManager({ store, ...own }).tryAcquire('key')).toBeUndefined();
      const lease = await manager.acquire('soon free', { minHold: 150 });
      await lease.release();
      const next = await manager.acquire('soon free', { timeout: 60_000 });
      expect(next.token).toBeGreaterThan(lease.token);
    },
  );
});

it('keeps a key for exactly the rest of the time, on a fixed clock', async () => {
  const clock = new FixedClock();
  const store = new MemoryLeaseStore({ clock });
  const manager = new LeaseManager({ store, clock, ttl: 10_000, minHold: 300 });
  const lease = await manager.acquire('key');
  const waiting = watch(manager.acquire('key', { timeout: Infinity }));
  clock.advance(100);
  await lease.release();
  clock.advance(199);
  await turns();
  expect(waiting.state).toBe('pending');
  clock.advance(1);
  expect((await waiting.promise).token).toBeGreaterThan(lease.token);
});

it('wakes waiters of a memory store in time, whose holder had a longer TTL', async () => {
  const store = new MemoryLeaseStore();
  const lease = await new LeaseManager({ store, ttl: LONG, minHold: 100 }).acquire('key');
  const waiting = new LeaseManager({ store }).acquire('key', { timeout: 60_000 });
  const start = performance.now();
  await lease.release();
  await waiting;
  expect(performance.now() - start).toBeLessThan(30_000);
});

it('gives back at once a lease that came after its acquisition was aborted', async () => {
  const store = new FaultyStore();
  const door = gate();
  store.after.tryAcquire = door.pass;
  const manager = new LeaseManager({ store, minHold: LONG });
  const abort = new AbortController();
  const acquired = rejectionOf(manager.acquire('key', { signal: abort.signal }));
  await turns();
  abort.abort();
  await acquired;
  door.open();
  await until(() => store.count('release') === 1, 'it is given back');
  expect(store.count('renew')).toBe(0);
  await turns();
  expect(await store.inner.inspect('key')).toBeUndefined();
});

it('a release that failed can be repeated, and keeps the rest of the time', async () => {
  const store = new FaultyStore();
  const lease = await new LeaseManager({ store, minHold: LONG }).acquire('key');
  store.before.keep = failing;
  expect(await rejectionOf(lease.release())).toMatchObject({ code: 'ERR_LEASE_STORE' });
  delete store.before.keep;
  await lease.release();
  expect((await store.inner.inspect('key'))!.remaining).toBeGreaterThan(LONG / 2);
});

it.each(['by hand', 'by the heartbeat'])(
  'keeps the rest of the time although a renewal is under way when it is released: %s',
  async (how) => {
    const store = new FaultyStore();
    const renew = how === 'by hand' ? false : { every: 5 };
    const lease = await new LeaseManager({ store, minHold: LONG, ttl: 30_000, renew }).acquire('key');
    const late = store.delayNext('renew');
    const renewing = how === 'by hand' ? lease.renew() : undefined;
    await until(() => store.count('renew') === 1, 'a renewal is under way');
    const releasing = lease.release();
    await turns();
    late.open();
    expect(await releasing).toBe(true);
    await renewing;
    await turns();
    expect(lease.held).toBe(false);
    expect((await store.inspect('key'))!.remaining).toBeGreaterThan(LONG / 2);
  },
);

it('gives back a lease whose renewal was answered too late, with minHold, too', async () => {
  const clock = new FixedClock();
  const store = new FaultyStore(clock);
  const manager = new LeaseManager({ store, clock, ttl: 300, minHold: 2000, renew: false });
  const lease = await manager.acquire('key');
  const [there, back] = [store.delayNext('renew'), store.delayAnswer('renew')];
  const renewing = watch(lease.renew());
  await turns();
  clock.advance(250);
  there.open();
  await turns();
  clock.advance(100);
  back.open();
  expect(await renewing.promise).toBe(false);
  expect(lease.held).toBe(false);
  // The rest of the time is left to the store.
  expect((await store.inspect('key'))?.remaining).toBe(2000 - 350);
});

it.each<[kind: string, make: (clock: FixedClock) => LeaseStore]>([
  ['memory', (clock) => new MemoryLeaseStore({ clock })],
  ['another store', (clock) => new FaultyStore(clock)],
])('shortens no later lease of the same holder: %s', async (_kind, make) => {
  const clock = new FixedClock();
  const store = make(clock);
  const manager = new LeaseManager({ store, clock, ttl: 10_000, minHold: 5000, holder: 'me', renew: false });
  const several = await manager.acquire(['a', 'b']);
  await store.release('a', 'me');
  expect(await several.renew()).toBe(false);
  const next = await manager.acquire('b');
  expect(await several.release()).toBe(false);
  clock.advance(6000);
  expect(next.held).toBe(true);
  expect(await new LeaseManager({ store, clock }).tryAcquire('b')).toBeUndefined();
});

it('keeps the key from others in a store without `keep`, but not from the same holder', async () => {
  const inner = new MemoryLeaseStore();
  const store: LeaseStore = {
    tryAcquire: (key, owner, ttl) => inner.tryAcquire(key, owner, ttl),
    renew: (key, owner, ttl) => inner.renew(key, owner, ttl),
    release: (key, owner) => inner.release(key, owner),
    inspect: (key) => inner.inspect(key),
  };
  const manager = new LeaseManager({ store, holder: 'me', minHold: LONG });
  const lease = await manager.acquire('key');
  expect(await lease.release()).toBe(true);
  expect((await store.inspect('key'))!.remaining).toBeGreaterThan(LONG / 2);
  expect(await new LeaseManager({ store }).tryAcquire('key')).toBeUndefined();
  expect((await manager.tryAcquire('key'))?.held).toBe(true);
});

it('a bad minHold is refused', () => {
  for (const minHold of [-1, NaN, Infinity, 2 ** 43]) {
    expect(thrownBy(() => new LeaseManager({ minHold }))).toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
  }
  expect(thrownBy(() => new LeaseManager({ minHold: '5' as never }))).toMatchObject({
    code: 'ERR_INVALID_ARG_TYPE',
  });
});

describe('users of a lease', () => {
  const users = async (store: LeaseStore): Promise<void> => {
    const manager = new LeaseManager({ store, reentrant: true });
    const first = await manager.acquire('a');
    expect(first.users).toBe(1);
    const second = await manager.acquire(['a', 'b']);
    expect([first.users, second.users]).toEqual([2, 2]);
    await first.release();
    expect([first.users, second.users]).toEqual([1, 1]);
    await second.release();
    expect([first.users, second.users]).toEqual([0, 0]);
  };

  it.each(ways)('are counted where they share it: %s', (_way, make) => users(make()));

  it('are one without sharing, also of a lease of nothing', async () => {
    const manager = new LeaseManager();
    for (const keys of ['key', ['a', 'b'], []]) {
      const lease = await manager.acquire(keys);
      expect(lease.users).toBe(1);
      await lease.release();
      expect(lease.users).toBe(0);
    }
  });
});
