import { getEventListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LeaseManager, LockTimeoutError, MemoryLeaseStore } from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { rejectionOf, watch } from '../support/waiting.js';
import { failing, FaultyStore } from './faulty-store.js';

describe('acquire', () => {
  it('is granted at once when the holder of a memory lease releases it', async () => {
    const store = new MemoryLeaseStore();
    const held = await new LeaseManager({ store }).acquire('key');
    const waiting = watch(new LeaseManager({ store }).acquire('key', { timeout: 20_000 }));
    await delay(5);
    expect(waiting.state).toBe('pending');
    await held.release();
    await waiting.promise;
    expect(waiting.value!.token).toBeGreaterThan(held.token);
  });

  it('is granted in order of arrival within a thread', async () => {
    const manager = new LeaseManager({ renew: false });
    const held = await manager.acquire('key');
    const order: number[] = [];
    const all = [0, 1, 2, 3, 4].map(async (i) => {
      const lease = await manager.acquire('key', { timeout: 20_000 });
      order.push(i);
      await lease.release();
    });
    await held.release();
    await Promise.all(all);
    expect(order).toEqual([0, 1, 2, 3, 4]);
  });

  it('is granted when the lease that it waits for expires', async () => {
    const store = new MemoryLeaseStore();
    await store.tryAcquire('key', 'crashed', 60);
    const start = performance.now();
    const lease = await new LeaseManager({ store }).acquire('key');
    // Timers of other clocks may be a little early.
    expect(performance.now() - start).toBeGreaterThan(50);
    expect(lease.held).toBe(true);
  });

  it('is granted when a fixed clock passes the expiry, without sleeping', async () => {
    const clock = new FixedClock();
    const store = new MemoryLeaseStore({ clock });
    const crashed = await new LeaseManager({ store, clock, renew: false }).acquire('key');
    const waiting = new LeaseManager({ store, clock }).acquire('key');
    clock.advance(30_000);
    expect((await waiting).token).toBeGreaterThan(crashed.token);
    expect(crashed.held).toBe(false);
  });

  it('times out with LockTimeoutError, which names the key', async () => {
    const store = new MemoryLeaseStore();
    await store.tryAcquire('key', 'a', 60_000);
    for (const timeout of [0, 20]) {
      const error = await rejectionOf(new LeaseManager({ store }).acquire('key', { timeout }));
      expect(error).toBeInstanceOf(LockTimeoutError);
      expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', timeout, keys: ['key'], stripe: -1 });
      expect((error as Error).message).toContain('"key"');
    }
  });

  it('rejects with the reason of its signal, before and while it waits', async () => {
    const manager = new LeaseManager();
    await manager.acquire('key');
    const reason = new Error('enough');
    expect(await rejectionOf(manager.acquire('key', { signal: AbortSignal.abort(reason) }))).toBe(reason);
    const abort = new AbortController();
    const waiting = manager.acquire('key', { signal: abort.signal, timeout: Infinity });
    const next = watch(manager.acquire('key', { timeout: 50 }));
    abort.abort(reason);
    expect(await rejectionOf(waiting)).toBe(reason);
    await next.promise.catch(() => undefined);
    expect(next.reason).toMatchObject({ code: 'ERR_LOCK_TIMEOUT' });
  });

  it('takes one listener for a signal, however many wait with it', async () => {
    const manager = new LeaseManager();
    await manager.acquire('key');
    const abort = new AbortController();
    const { signal } = abort;
    const waiting = Array.from({ length: 50 }, () => rejectionOf(manager.acquire('key', { signal })));
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    abort.abort();
    expect(await Promise.all(waiting)).toEqual(waiting.map(() => signal.reason as unknown));
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  it('lets the next waiters pass when the head of the queue is aborted after a release', async () => {
    const manager = new LeaseManager();
    const held = await manager.acquire('key');
    const abort = new AbortController();
    const head = watch(manager.acquire('key', { signal: abort.signal }));
    const next = manager.acquire('key');
    const released = held.release();
    abort.abort();
    expect((await next).held).toBe(true);
    await released;
    expect(head.state).toBe('rejected');
  });

  it('retries a failing store until the timeout, whose error has the cause', async () => {
    const store = new FaultyStore();
    store.before.tryAcquire = failing;
    const manager = new LeaseManager({ store, backoff: { initial: 1, max: 5 } });
    const error = await rejectionOf(manager.acquire('key', { timeout: 500 }));
    expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', cause: { code: 'ERR_LEASE_STORE' } });
    expect(store.asked.length).toBeGreaterThan(3);
    const recovered = manager.acquire('key', { timeout: 20_000 });
    await delay(5);
    delete store.before.tryAcquire;
    expect((await recovered).held).toBe(true);
  });

  it('reports a failure from before it was refused as the cause of its timeout', async () => {
    const store = new FaultyStore();
    await store.inner.tryAcquire('key', 'a', 60_000);
    let failures = 1;
    store.before.tryAcquire = () => {
      if (failures-- > 0) failing();
    };
    const manager = new LeaseManager({ store, backoff: { initial: 1, max: 5 } });
    const error = await rejectionOf(manager.acquire('key', { timeout: 200 }));
    expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', cause: { code: 'ERR_LEASE_STORE' } });
    expect((error as Error).message).toContain('it is held');
    expect(store.asked.length).toBeGreaterThan(1);
  });

  it('backs off between attempts, up to its maximum', async () => {
    const store = new FaultyStore();
    await store.inner.tryAcquire('key', 'a', 60_000);
    const manager = new LeaseManager({ store, backoff: { initial: 10, max: 40, jitter: 0 } });
    await rejectionOf(manager.acquire('key', { timeout: 500 }));
    // Attempts at 0, 10, 30 and 70 ms, then every 40 ms; late timers only mean fewer of them.
    expect(store.asked.length).toBeLessThanOrEqual(15);
    expect(store.asked.length).toBeGreaterThan(2);
  });
});
