import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LeaseManager, MemoryLeaseStore, type LeaseStore } from 'stripelock';
import { block } from '../support/block.js';
import { rejectionOf, turns, until } from '../support/waiting.js';
import { failing, FaultyStore, gate } from './faulty-store.js';
import { onFaultyStore, onFixedClock } from './fixed-time.js';

describe('renewal', () => {
  it('keeps a lease alive for 100 TTLs, however late the timers are, if it can run every sixth of a TTL', async () => {
    const { clock, manager } = onFixedClock();
    const lease = await manager.acquire('key');
    for (let i = 0; i < 600; i++) {
      clock.advance(50);
      await turns();
      expect(lease.held).toBe(true);
    }
    expect(await manager.store.inspect('key')).toMatchObject({ token: lease.token });
  });

  it('beats every third of the TTL, or at the interval in its options', async () => {
    for (const [renew, first] of [
      [true, 100],
      [{ every: 40 }, 40],
    ] as const) {
      const { clock, manager } = onFixedClock({ renew });
      const lease = await manager.acquire('key');
      const { expiresAt } = lease;
      clock.advance(first - 1);
      await delay(0);
      expect(lease.expiresAt).toBe(expiresAt);
      clock.advance(1);
      await delay(0);
      expect(lease.expiresAt).toBe(expiresAt + first);
      clock.advance(first);
      await delay(0);
      expect(lease.expiresAt).toBe(expiresAt + 2 * first);
    }
  });

  it('stops after maxHold, so that a holder that hangs loses the lease', async () => {
    const { clock, manager } = onFixedClock({ maxHold: 250 });
    const lease = await manager.acquire('key');
    for (let i = 0; i < 5; i++) {
      clock.advance(100);
      await delay(0);
    }
    expect([lease.held, lease.expiresAt]).toEqual([false, 5000 + 200 + 300]);
  });

  it('survives failures of the store that end before the deadline', async () => {
    const { clock, store, manager } = onFaultyStore({ backoff: { initial: 5 } });
    let failures = 2;
    store.before.renew = () => {
      if (failures-- > 0) failing();
    };
    const lease = await manager.acquire('key');
    for (const [milliseconds, renewals] of [
      [100, 1],
      // It failed: it retries after 5 and after 10.
      [5, 2],
      [9, 2],
      [1, 3],
      // Then it renews every 100 again.
      [99, 3],
      [1, 4],
    ] as const) {
      clock.advance(milliseconds);
      await turns();
      expect([lease.held, store.count('renew')]).toEqual([true, renewals]);
    }
    expect(lease.expiresAt).toBe(clock.now() + 300);
  });

  it('is retried until the deadline, so that an outage that ends before it costs nothing', async () => {
    for (const [from, to] of [
      [250, 700],
      [290, 880],
      [0, 895],
    ] as const) {
      const { clock, store, manager, pass } = onFaultyStore({ ttl: 900 });
      const lease = await manager.acquire('key');
      store.before.renew = () => {
        if (clock.now() >= from && clock.now() < to) failing();
      };
      await pass(1500);
      expect([from, to, lease.held]).toEqual([from, to, true]);
      // But not at every moment: by the backoff, and then after half of the time that is left.
      expect(store.count('renew')).toBeLessThan(25);
    }
  });

  it('is retried even if the backoff is longer than the time that is left', async () => {
    const { clock, store, manager, pass } = onFaultyStore({ backoff: { initial: 5000, max: 5000 } });
    const lease = await manager.acquire('key');
    store.before.renew = () => {
      if (clock.now() < 280) failing();
    };
    await pass(400);
    expect(lease.held).toBe(true);
  });

  it('reports at once when the store says that somebody else has the lease', async () => {
    const store = new MemoryLeaseStore();
    const lease = await new LeaseManager({ store, ttl: 30_000, renew: { every: 10 } }).acquire('key');
    await store.release('key', lease.holder);
    await store.tryAcquire('key', 'thief', 30_000);
    const { signal } = lease;
    await until(() => signal.aborted, 'the loss is signalled');
    expect(lease.expiresAt).toBeGreaterThan(performance.now());
    expect(await lease.release()).toBe(false);
    expect(await store.inspect('key')).toMatchObject({ owner: 'thief' });
  });

  it('by hand extends for as long as asked, and the heartbeat does not cut it short', async () => {
    const { clock, manager } = onFixedClock();
    const lease = await manager.acquire('key');
    expect(await lease.renew(10_000)).toBe(true);
    expect(lease.expiresAt).toBe(15_000);
    clock.advance(9700);
    await delay(0);
    expect(lease.expiresAt).toBe(15_000);
    clock.advance(100);
    await delay(0);
    expect(lease.expiresAt).toBe(15_100);
    expect(await rejectionOf(lease.renew(0))).toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
  });

  it('counts from before the request was sent, so that the holder never believes more than the store', async () => {
    for (const how of ['by hand', 'by the heartbeat', 'with an info']) {
      const { clock, store, manager } = onFaultyStore({ renew: how === 'by the heartbeat' });
      const lease = await manager.acquire('key');
      // The way back takes 50 ms.
      store.after.renew = () => clock.advance(50);
      if (how === 'by hand') await lease.renew();
      else if (how === 'with an info') await lease.setInfo('there');
      else clock.advance(100);
      await turns();
      const asked = how === 'by the heartbeat' ? 100 : 0;
      expect([how, clock.now(), lease.expiresAt]).toEqual([how, asked + 50, asked + 300]);
      expect(lease.expiresAt - clock.now()).toBe((await store.inspect('key'))!.remaining);
    }
  });

  it('for a shorter time counts at once, since the store may execute it although its answer is lost', async () => {
    const { clock, store, manager } = onFaultyStore({ ttl: 60_000, renew: false });
    const lease = await manager.acquire('key');
    store.after.renew = failing;
    expect(await rejectionOf(lease.renew(50))).toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect(lease.expiresAt).toBe(clock.now() + 50);
    clock.advance(50);
    expect(lease.held).toBe(false);
  });

  it('by hand rejects when the store fails, and the lease is still held', async () => {
    const store = new FaultyStore();
    const lease = await new LeaseManager({ store }).acquire('key');
    store.before.renew = failing;
    expect(await rejectionOf(lease.renew())).toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect(lease.held).toBe(true);
  });

  it('by hand only is not retried automatically when it fails', async () => {
    const backoff = { initial: 1, max: 2 };
    const { clock, store, manager, pass } = onFaultyStore({ ttl: 60, renew: false, backoff });
    const lease = await manager.acquire('key');
    store.before.renew = failing;
    expect(await rejectionOf(lease.renew())).toMatchObject({ code: 'ERR_LEASE_STORE' });
    await pass(59);
    expect([lease.held, store.count('renew')]).toEqual([true, 1]);
    clock.advance(1);
    expect(lease.held).toBe(false);
  });

  it('never outlives a release, however late its reply', async () => {
    const store = new FaultyStore();
    const slow = gate();
    store.before.renew = slow.pass;
    const lease = await new LeaseManager({ store, ttl: 300, renew: { every: 5 } }).acquire('key');
    await until(() => store.count('renew') === 1, 'a renewal is under way');
    expect(await lease.release()).toBe(true);
    slow.open();
    await delay(50);
    expect(store.count('renew')).toBe(1);
    expect(store.inner.size).toBe(0);
  });

  it('of many leases that are due together lets the event loop turn in between', async () => {
    const inner = new MemoryLeaseStore();
    let renewals = 0;
    // Each takes half a millisecond, as on a slow machine: all in one go would take a second.
    const store: LeaseStore = {
      tryAcquire: (...of) => inner.tryAcquire(...of),
      renew: (...of) => {
        renewals++;
        for (const end = performance.now() + 0.5; performance.now() < end;);
        return inner.renew(...of);
      },
      release: (...of) => inner.release(...of),
      inspect: (key) => inner.inspect(key),
    };
    const manager = new LeaseManager({ store, ttl: 600_000, renew: { every: 100 } });
    const keys = Array.from({ length: 2000 }, (_, i) => `key ${i}`);
    await Promise.all(keys.map((key) => manager.acquire(key)));
    block(150);
    let most = 0;
    for (let before = renewals; renewals < 2000; before = renewals) {
      await new Promise((resolve) => setImmediate(resolve));
      most = Math.max(most, renewals - before);
    }
    // About twenty in each turn.
    expect(most).toBeLessThan(200);
    await manager.close();
  });

  it('of ten thousand leases takes one timer', async () => {
    const manager = new LeaseManager({ ttl: 60_000, renew: { every: 300 } });
    const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    const before = timers();
    const keys = Array.from({ length: 10_000 }, (_, i) => `key ${i}`);
    const leases = await Promise.all(keys.map((key) => manager.acquire(key)));
    expect(timers() - before).toBeLessThanOrEqual(1);
    const first = leases.map(({ expiresAt }) => expiresAt);
    await until(() => leases.every(({ expiresAt }, i) => expiresAt > first[i]!), 'all are renewed');
    expect(timers() - before).toBeLessThanOrEqual(1);
    await manager.close();
  });
});
