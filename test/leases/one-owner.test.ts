import { describe, expect, it } from 'vitest';
import { LeaseManager, LockError, type WarningLeaseManagerOptions } from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { rejectionOf, turns, until, watch } from '../support/waiting.js';
import { failing, FaultyStore } from './faulty-store.js';
import { inOneStep } from './several-stores.js';

/** Milliseconds. */
const [SHORT, LONG] = [60_000, 600_000];

/** A store cannot distinguish two leases of one owner, so a late operation on the first would change the second. */
describe.each<[kind: string, options: WarningLeaseManagerOptions]>([
  ['a named holder', { holder: 'worker' }],
  ['a reentrant manager', { reentrant: true }],
])('the operations of one owner, %s,', (_kind, options) => {
  const scene = (): { store: FaultyStore; manager: LeaseManager } => {
    const store = new FaultyStore();
    return { store, manager: new LeaseManager({ store, ttl: SHORT, renew: false, ...options }) };
  };

  it.each([
    ['key', 'key'],
    ['key', ['another', 'key']],
    [['another', 'key'], 'key'],
  ])(
    'reach the store in order: a late release of %j does not free its next lease, of %j',
    async (of, next) => {
      const { store, manager } = scene();
      const first = await manager.acquire(of);
      const late = store.delayNext('release');
      const releasing = first.release();
      const acquired = watch(manager.acquire(next));
      await turns();
      late.open();
      const second = await acquired.promise;
      expect(await releasing).toBe(true);
      await turns();
      expect(second.held).toBe(true);
      expect(await store.inspect('key')).toMatchObject({ token: second.tokens.get('key') });
    },
  );

  it('reach the store in order: a late renewal does not shorten its next lease', async () => {
    const { store, manager } = scene();
    const first = await manager.acquire('key');
    const late = store.delayNext('renew');
    const renewing = watch(first.renew());
    await until(() => store.count('renew') === 1, 'the renewal is under way');
    const releasing = first.release();
    const acquired = watch(manager.acquire('key', { ttl: LONG }));
    await turns();
    late.open();
    const second = await acquired.promise;
    await Promise.all([releasing, renewing.promise]);
    await turns();
    expect(second.held).toBe(true);
    expect((await store.inspect('key'))!.remaining).toBeGreaterThan(LONG / 2);
  });

  it('reach the store in order: a late attempt is granted before the release of what it has', async () => {
    const { store, manager } = scene();
    const late = store.delayNext('tryAcquire');
    const attempt = watch(manager.tryAcquire('key'));
    const second = watch(manager.acquire('key', { timeout: 20_000 }));
    await turns();
    late.open();
    const leases = [(await attempt.promise)!, await second.promise];
    // Shared, or replaced: what the store has is what the last one says.
    expect(leases[1]!.held).toBe(true);
    expect(await store.inspect('key')).toMatchObject({ token: leases[1]!.token });
    for (const lease of leases) await lease.release();
    expect(store.inner.size).toBe(0);
  });
});

it('a renewal of a lease that its holder is just taking again does not shorten the new one', async () => {
  const store = new FaultyStore();
  const manager = new LeaseManager({ store, ttl: SHORT, renew: false, holder: 'worker' });
  const first = await manager.acquire('key');
  const late = store.delayNext('renew');
  const renewing = watch(first.renew());
  await until(() => store.count('renew') === 1, 'the renewal is under way');
  const acquired = watch(manager.acquire('key', { ttl: LONG }));
  await turns();
  late.open();
  const second = await acquired.promise;
  await renewing.promise;
  await turns();
  expect([first.held, second.held]).toEqual([false, true]);
  expect((await store.inspect('key'))!.remaining).toBeGreaterThan(LONG / 2);
  // The other way round: the grant is on its way back when the renewal is asked for.
  const answer = store.delayAnswer('tryAcquire');
  const third = watch(manager.acquire('key', { ttl: 2 * LONG }));
  await until(() => store.count('tryAcquire') === 3, 'it is granted');
  const refused = watch(second.renew());
  await turns();
  answer.open();
  expect((await third.promise).held).toBe(true);
  expect(await refused.promise).toBe(false);
  await turns();
  expect((await store.inspect('key'))!.remaining).toBeGreaterThan(LONG);
});

describe('a named holder who asks again for a key that it holds', () => {
  const scene = (): {
    clock: FixedClock;
    store: FaultyStore;
    manager: LeaseManager;
    others: LeaseManager;
  } => {
    const clock = new FixedClock();
    const store = new FaultyStore(clock);
    const manager = new LeaseManager({ store, clock, ttl: LONG, renew: false, holder: 'worker' });
    return { clock, store, manager, others: new LeaseManager({ store, clock }) };
  };

  it('keeps the first lease and its time while the store has not answered a shorter attempt', async () => {
    const { clock, store, manager, others } = scene();
    const first = await manager.acquire('key');
    const { signal } = first;
    const answer = store.delayAnswer('tryAcquire');
    const again = watch(rejectionOf(manager.tryAcquire('key', { ttl: SHORT })));
    await turns();
    clock.advance(2 * SHORT);
    expect([signal.aborted, first.held]).toEqual([false, true]);
    expect(await others.tryAcquire('key')).toBeUndefined();
    // The grant arrives after its TTL. It has replaced the first lease, and is given back.
    answer.open();
    expect(await again.promise).toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect([signal.aborted, first.held]).toEqual([true, false]);
    expect((await others.tryAcquire('key'))?.held).toBe(true);
  });

  it('keeps the first lease and its time, and frees its key, if the answer is lost', async () => {
    const { clock, store, manager, others } = scene();
    const first = await manager.acquire('key');
    const { expiresAt } = first;
    store.after.tryAcquire = failing;
    expect(await rejectionOf(manager.tryAcquire('key', { ttl: SHORT }))).toMatchObject({
      code: 'ERR_LEASE_STORE',
    });
    delete store.after.tryAcquire;
    clock.advance(2 * SHORT);
    expect([first.held, first.expiresAt]).toEqual([true, expiresAt]);
    expect(await others.tryAcquire('key')).toBeUndefined();
    expect(await first.renew(LONG)).toBe(true);
    expect(first.expiresAt).toBe(clock.now() + LONG);
    expect(await first.release()).toBe(true);
    expect(store.inner.size).toBe(0);
    expect((await others.tryAcquire('key'))?.held).toBe(true);
  });

  it('keeps the rest of minHold of the first lease, if the answer is lost', async () => {
    const { store, manager } = scene();
    const first = await manager.acquire('key', { minHold: 2 * LONG });
    store.after.tryAcquire = failing;
    await rejectionOf(manager.tryAcquire('key', { ttl: SHORT }));
    expect(await first.release()).toBe(true);
    expect((await store.inspect('key'))?.remaining).toBe(2 * LONG);
  });

  it('keeps it, and its time, if the store refuses for good', async () => {
    const { clock, store, manager } = scene();
    const first = await manager.acquire('key');
    store.before.tryAcquire = () => {
      throw new LockError('ERR_LEASE_STORE_DENIED', 'no');
    };
    expect(await rejectionOf(manager.tryAcquire('key', { ttl: SHORT }))).toMatchObject({
      code: 'ERR_LEASE_STORE_DENIED',
    });
    const { signal } = first;
    clock.advance(2 * SHORT);
    expect([first.held, signal.aborted]).toEqual([true, false]);
    clock.advance(LONG);
    expect(signal.aborted).toBe(true);
  });

  it('keeps it, and its time, if the store takes all keys at once, and another key is refused', async () => {
    const clock = new FixedClock();
    const store = inOneStep();
    const manager = new LeaseManager({ store, clock, ttl: LONG, renew: false, holder: 'worker' });
    await store.tryAcquire('other', 'another', LONG);
    const first = await manager.acquire('key');
    const { signal } = first;
    expect(await manager.tryAcquire(['key', 'other'], { ttl: SHORT })).toBeUndefined();
    clock.advance(2 * SHORT);
    expect([first.held, signal.aborted]).toEqual([true, false]);
    expect(await first.release()).toBe(true);
  });

  it.each([
    ['is refused', undefined],
    ['has no answer', failing],
  ])('has lost it where the store takes one key at a time, and another key %s', async (_how, fails) => {
    const { store, manager, others } = scene();
    await store.inner.tryAcquire('other', 'another', LONG);
    const first = await manager.acquire('key');
    store.before.tryAcquire = () => {
      store.before.tryAcquire = fails;
    };
    expect(await manager.tryAcquire(['key', 'other']).catch(() => undefined)).toBeUndefined();
    delete store.before.tryAcquire;
    expect(first.held).toBe(false);
    expect((await others.tryAcquire('key'))?.held).toBe(true);
    expect(await first.release()).toBe(false);
  });
});
