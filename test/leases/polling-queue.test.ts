import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { LeaseManager, type LeaseStore } from 'stripelock';
import { failing, FaultyStore, gate } from './faulty-store.js';

/** Pauses that outlast every test: a waiter that is granted earlier was woken. */
const NEVER = { initial: 50_000, max: 50_000, jitter: 0 };

it('asks once for all waiters, and serves them in order of arrival', async () => {
  const store = new FaultyStore();
  await store.inner.tryAcquire('key', 'somebody else', 60_000);
  const manager = new LeaseManager({ store, backoff: { initial: 10, max: 20, jitter: 0 } });
  const served: number[] = [];
  const all = Array.from({ length: 200 }, (_, i) =>
    manager.withLease('key', { timeout: 30_000 }, () => served.push(i)),
  );
  await delay(200);
  // One attempt every 10 to 20 ms; late timers only mean fewer of them.
  expect(store.count('tryAcquire')).toBeLessThan(25);
  await store.inner.release('key', 'somebody else');
  await Promise.all(all);
  expect(served).toEqual(Array.from({ length: 200 }, (_, i) => i));
});

it('hands a key on to a waiter in another manager of the same store', async () => {
  const store = new FaultyStore();
  const [one, other] = [new LeaseManager({ store }), new LeaseManager({ store, backoff: NEVER })];
  const held = await one.acquire('key');
  const waiting = other.acquire('key', { timeout: 40_000 });
  await expect.poll(() => store.count('tryAcquire')).toBe(2);
  const released = performance.now();
  await held.release();
  expect((await waiting).held).toBe(true);
  expect(performance.now() - released).toBeLessThan(10_000);
});

it('notices a release that comes before the refusal of its first attempt', async () => {
  const store = new FaultyStore();
  const held = await new LeaseManager({ store }).acquire('key');
  store.after.tryAcquire = async () => {
    delete store.after.tryAcquire;
    await held.release();
  };
  const waiting = new LeaseManager({ store, backoff: NEVER }).acquire('key', { timeout: 40_000 });
  const began = performance.now();
  expect((await waiting).held).toBe(true);
  expect(performance.now() - began).toBeLessThan(10_000);
});

it('has the next waiter ask when the first gives up, even while it is asking', async () => {
  const store = new FaultyStore();
  const hangs = gate();
  store.before.tryAcquire = hangs.pass;
  const manager = new LeaseManager({ store, backoff: { initial: 5, max: 5, jitter: 0 } });
  const first = manager.acquire('key', { timeout: 20 });
  const second = manager.acquire('key', { timeout: 30_000 });
  await expect(first).rejects.toMatchObject({ code: 'ERR_LOCK_TIMEOUT' });
  delete store.before.tryAcquire;
  expect((await second).held).toBe(true);
  hangs.open();
});

it('does not use a late answer to a waiter that gave up for another one', async () => {
  const store = new FaultyStore();
  await store.inner.tryAcquire('key', 'somebody else', 60_000);
  const [early, late] = [gate(), gate()];
  store.before.tryAcquire = early.pass;
  const manager = new LeaseManager({ store, backoff: { initial: 5, max: 5, jitter: 0 } });
  const first = manager.acquire('key', { timeout: 20 });
  const second = manager.acquire('key', { timeout: 30_000 });
  expect(store.count('tryAcquire')).toBe(1);
  store.before.tryAcquire = late.pass;
  await expect(first).rejects.toMatchObject({ code: 'ERR_LOCK_TIMEOUT' });
  await expect.poll(() => store.count('tryAcquire')).toBe(2);
  early.open();
  await delay(50);
  // The second one's attempt has no answer yet: another one beside it could be granted the key as well.
  expect(store.count('tryAcquire')).toBe(2);
  await store.inner.release('key', 'somebody else');
  late.open();
  expect((await second).held).toBe(true);
});

it('gives the store’s error to all waiters that time out', async () => {
  const store = new FaultyStore();
  store.before.tryAcquire = failing;
  const manager = new LeaseManager({ store, backoff: { initial: 5, max: 5 } });
  const all = await Promise.allSettled([1, 2, 3].map(() => manager.acquire('key', { timeout: 100 })));
  for (const { reason } of all as PromiseRejectedResult[]) {
    expect(reason).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', cause: { code: 'ERR_LEASE_STORE' } });
  }
});

it('leaves the key to other waiters that poll rarely', async () => {
  const store = new FaultyStore();
  const backoff = { initial: 5, max: 40, jitter: 0.5 };
  const busy = new LeaseManager({ store, backoff });
  // Like in another process: a separate store on the same leases.
  const elsewhere: LeaseStore = {
    tryAcquire: (...of) => store.inner.tryAcquire(...of),
    renew: (...of) => store.inner.renew(...of),
    release: (...of) => store.inner.release(...of),
    inspect: (key) => store.inner.inspect(key),
  };
  let over = false;
  const always = Array.from({ length: 4 }, async () => {
    while (!over) await busy.withLease('key', { timeout: 60_000 }, () => delay(2));
  });
  await delay(50);
  const lease = await new LeaseManager({ store: elsewhere, backoff }).acquire('key', { timeout: 30_000 });
  await lease.release();
  over = true;
  await Promise.all(always);
});

it.each([3000, 50_000])(
  'asks again before the timeout even if the first pause is as long or longer: %d ms',
  async (initial) => {
    const store = new FaultyStore();
    await store.inner.tryAcquire('key', 'somebody else', 60_000);
    const manager = new LeaseManager({ store, backoff: { initial, max: 50_000, jitter: 0 } });
    const waiting = manager.acquire('key', { timeout: 3000 });
    await expect.poll(() => store.count('tryAcquire')).toBe(1);
    await store.inner.release('key', 'somebody else');
    // A machine too busy to run a timer within half of the timeout would ask too late.
    expect((await waiting).held).toBe(true);
    expect(store.count('tryAcquire')).toBeLessThan(10);
  },
);
