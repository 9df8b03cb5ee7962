import { describe, expect, it } from 'vitest';
import { LeaseManager, LockError, MemoryLeaseStore } from 'stripelock';
import { rejectionOf, turns, until, watch } from '../support/waiting.js';
import { failing, FaultyStore, gate } from './faulty-store.js';

describe('close', () => {
  it('releases everything, ends waiting acquisitions, notifies the holders, and refuses later acquisitions', async () => {
    const store = new MemoryLeaseStore();
    const manager = new LeaseManager({ store });
    const lease = await manager.acquire('key');
    const { signal } = lease;
    const waiting = watch(manager.acquire('key'));
    await Promise.all([manager.close(), manager.close()]);
    expect([lease.held, signal.aborted, store.size]).toEqual([false, true, 0]);
    expect(signal.reason).toMatchObject({ code: 'ERR_LEASE_LOST' });
    expect(await rejectionOf(waiting.promise)).toMatchObject({ code: 'ERR_LEASE_MANAGER_CLOSED' });
    expect(await rejectionOf(manager.tryAcquire('key'))).toMatchObject({ code: 'ERR_LEASE_MANAGER_CLOSED' });
    expect(await lease.release()).toBe(false);
  });

  it.each(['acquire', 'tryAcquire', 'timeout 0', 'by name'])(
    'waits for acquisitions on the wire, and leaves none of their leases behind: %s',
    async (how) => {
      const store = new FaultyStore();
      const late = gate();
      store.after.tryAcquire = late.pass;
      const slow = gate();
      store.before.release = slow.pass;
      const manager = new LeaseManager(how === 'by name' ? { store, holder: 'worker' } : { store });
      const asked = watch<unknown>(
        how === 'tryAcquire'
          ? manager.tryAcquire('key')
          : manager.acquire('key', { timeout: how === 'timeout 0' ? 0 : 40_000 }),
      );
      // If owners are stable, it queues behind the first and is not even sent.
      const second = how === 'by name' ? watch(manager.tryAcquire('key')) : undefined;
      await until(() => store.inner.size === 1, 'it is granted, and the reply is on its way');
      const closing = watch(manager.close());
      await turns();
      expect(closing.state).toBe('pending');
      late.open();
      await until(() => store.count('release') === 1, 'the grant is given back');
      expect(closing.state).toBe('pending');
      slow.open();
      await closing.promise;
      expect(store.inner.size).toBe(0);
      await until(() => asked.state === 'rejected', 'the acquisition is rejected');
      expect(asked.reason).toMatchObject({ code: 'ERR_LEASE_MANAGER_CLOSED' });
      if (second) {
        await until(() => second.state === 'rejected', 'the second one is rejected');
        expect(second.reason).toMatchObject({ code: 'ERR_LEASE_MANAGER_CLOSED' });
      }
      expect(store.count('tryAcquire')).toBe(1);
    },
  );

  it('waits until possible grants have been given back, and does not wait for a pause', async () => {
    const store = new FaultyStore();
    store.after.tryAcquire = failing;
    store.before.release = failing;
    const backoff = { initial: 60_000, max: 60_000 };
    const manager = new LeaseManager({ store, backoff, ttl: 600_000 });
    await rejectionOf(manager.tryAcquire('key'));
    await until(() => store.count('release') === 1, 'giving back has failed');
    delete store.before.release;
    const started = performance.now();
    await manager.close();
    expect(store.inner.size).toBe(0);
    expect(performance.now() - started).toBeLessThan(20_000);
  });

  it('rejects if the store failed to release a grant that was on the wire', async () => {
    const store = new FaultyStore();
    const late = gate();
    store.after.tryAcquire = late.pass;
    const manager = new LeaseManager({ store });
    const asked = rejectionOf(manager.tryAcquire('key'));
    const closing = rejectionOf(manager.close());
    store.before.release = failing;
    late.open();
    expect(await closing).toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect(await asked).toMatchObject({ code: 'ERR_LEASE_MANAGER_CLOSED' });
  });

  it('rejects if the store failed to release until the lease expired', async () => {
    const store = new FaultyStore();
    const manager = new LeaseManager({ store, ttl: 200, backoff: { initial: 5 } });
    await manager.acquire('key');
    store.before.release = failing;
    expect(await rejectionOf(manager.close())).toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect(store.count('release')).toBeGreaterThan(1);
  });

  it('rejects at once if the store refuses for good', async () => {
    const store = new FaultyStore();
    const manager = new LeaseManager({ store, ttl: 600_000 });
    await manager.acquire('key');
    store.before.release = () => {
      throw new LockError('ERR_LEASE_STORE_DENIED', 'no rights');
    };
    expect(await rejectionOf(manager.close())).toMatchObject({ code: 'ERR_LEASE_STORE_DENIED' });
    expect(store.count('release')).toBe(1);
  });

  it('leaves none of thousands of leases behind: it releases a few at a time', async () => {
    const store = new FaultyStore();
    const manager = new LeaseManager({ store });
    await Promise.all(Array.from({ length: 3000 }, (_, i) => manager.acquire(`key ${i}`)));
    let [underWay, most] = [0, 0];
    store.before.release = async () => {
      most = Math.max(most, ++underWay);
      await turns(1);
      underWay--;
    };
    await manager.close();
    expect(store.inner.size).toBe(0);
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThanOrEqual(100);
  });

  it('repeats releases that fail, so that an outage that ends in time leaves no lease behind', async () => {
    const store = new FaultyStore();
    const manager = new LeaseManager({ store, backoff: { initial: 1, max: 5 } });
    const keys = Array.from({ length: 200 }, (_, i) => `key ${i}`);
    const leases = await Promise.all(keys.map((key) => manager.acquire(key)));
    const { signal } = leases[0]!;
    store.before.release = () => {
      if (store.count('release') <= 450) failing();
    };
    await manager.close();
    expect([store.inner.size, signal.aborted]).toEqual([0, true]);
  });
});

describe('close with drain', () => {
  const stores = [
    ['in memory', () => new MemoryLeaseStore()],
    ['over a store that is asked', () => new FaultyStore()],
  ] as const;
  it.each(stores)('renews what is held until its holder has released it, %s', async (_, makeStore) => {
    const manager = new LeaseManager({ store: makeStore(), renew: { every: 20 } });
    const lease = await manager.acquire('key');
    const waiting = watch(manager.acquire('key', { timeout: 40_000 }));
    const closing = watch(manager.close({ drain: 40_000 }));
    expect(await rejectionOf(waiting.promise)).toMatchObject({ code: 'ERR_LEASE_MANAGER_CLOSED' });
    expect(await rejectionOf(manager.tryAcquire('other'))).toMatchObject({
      code: 'ERR_LEASE_MANAGER_CLOSED',
    });
    const { expiresAt } = lease;
    await until(() => lease.expiresAt > expiresAt, 'it is renewed');
    expect([closing.state, lease.held]).toEqual(['pending', true]);
    await lease.release();
    await closing.promise;
  });

  it('ends held leases after its time, or with a later call without it', async () => {
    for (const end of ['time', 'call']) {
      const manager = new LeaseManager();
      const lease = await manager.acquire('key');
      const closing = watch(manager.close({ drain: end === 'time' ? 20 : Infinity }));
      await turns();
      expect(closing.state).toBe('pending');
      expect(lease.held).toBe(true);
      if (end === 'call') await manager.close();
      await closing.promise;
      expect(lease.signal.reason).toMatchObject({ code: 'ERR_LEASE_LOST' });
      expect(await manager.store.inspect('key')).toBe(undefined);
    }
  });

  it('refuses bad options, and closes nothing', async () => {
    const manager = new LeaseManager();
    expect(await rejectionOf(manager.close({ drain: -1 }))).toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
    expect(await rejectionOf(manager.close({ drian: 1 } as never))).toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
    });
    expect((await manager.acquire('key')).held).toBe(true);
  });
});
