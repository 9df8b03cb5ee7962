import { getEventListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LeaseManager, LeaseStoreError, LockTimeoutError, MemoryLeaseStore } from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { rejectionOf, turns, until, watch } from '../support/waiting.js';
import { failing, FaultyStore, gate } from './faulty-store.js';

describe('tryAcquire', () => {
  it('grants a free key, and is undefined for one that another holder has', async () => {
    const store = new MemoryLeaseStore();
    const [one, other] = [new LeaseManager({ store }), new LeaseManager({ store })];
    const lease = (await one.tryAcquire('key'))!;
    expect(lease).toMatchObject({ key: 'key', held: true });
    expect(await other.tryAcquire('key')).toBeUndefined();
    expect(await one.tryAcquire('key')).toBeUndefined();
    expect(await store.inspect('key')).toMatchObject({ owner: lease.holder, token: lease.token });
    expect(await lease.release()).toBe(true);
    expect(lease.held).toBe(false);
    expect((await other.tryAcquire('key'))!.token).toBeGreaterThan(lease.token);
  });

  it('rejects with LeaseStoreError and its cause when the store fails, and takes nothing', async () => {
    const store = new FaultyStore();
    store.before.tryAcquire = failing;
    const error = await rejectionOf(new LeaseManager({ store }).tryAcquire('key'));
    expect(error).toBeInstanceOf(LeaseStoreError);
    expect(error).toMatchObject({ code: 'ERR_LEASE_STORE', cause: { message: 'the network is down' } });
    expect(store.inner.size).toBe(0);
  });

  it('gives back a grant that arrives when it is over', async () => {
    const store = new FaultyStore();
    store.after.tryAcquire = () => delay(60);
    const error = await rejectionOf(new LeaseManager({ store, ttl: 50 }).tryAcquire('key', { renew: false }));
    expect(error).toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect(store.asked).toEqual(['tryAcquire', 'release']);
  });

  it('uses what a subclass of the memory store makes of it', async () => {
    class Failing extends MemoryLeaseStore {
      override tryAcquire(): Promise<bigint | undefined> {
        return Promise.reject(new Error('overridden'));
      }
    }
    const error = await rejectionOf(new LeaseManager({ store: new Failing() }).tryAcquire('key'));
    expect(error).toMatchObject({ code: 'ERR_LEASE_STORE', cause: { message: 'overridden' } });
  });

  it.each(['tryAcquire', 'release'] as const)(
    'goes on with the rest where a subclass has its own %s',
    async (name) => {
      const called: string[] = [];
      class Counting extends MemoryLeaseStore {
        static {
          const original = Reflect.get(MemoryLeaseStore.prototype, name) as (
            ...of: unknown[]
          ) => Promise<unknown>;
          Object.defineProperty(this.prototype, name, {
            value(this: Counting, ...of: unknown[]) {
              called.push(name);
              return original.apply(this, of);
            },
          });
        }
      }
      const store = new Counting();
      const manager = new LeaseManager({ store });
      for (const take of ['acquire', 'tryAcquire'] as const) {
        const lease = (await manager[take]('key'))!;
        expect((await store.inspect('key'))?.token).toBe(lease.token);
        expect(await lease.release()).toBe(true);
        expect(store.size).toBe(0);
      }
      expect(called).toEqual([name, name]);
    },
  );
});

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

  it('is granted when the lease that is waited for expires', async () => {
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

  it('lets those behind pass when the head of the queue is aborted after a release', async () => {
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

  it('retries a failing store until the timeout, whose error then has the cause', async () => {
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

  it.each(['timeout', 'abort', 'close'])('gives back a late grant after its %s', async (end) => {
    const store = new FaultyStore();
    const late = gate();
    store.after.tryAcquire = late.pass;
    const manager = new LeaseManager({ store });
    const abort = new AbortController();
    const waiting = watch(
      manager.acquire('key', { timeout: end === 'timeout' ? 10 : Infinity, signal: abort.signal }),
    );
    if (end === 'abort') abort.abort();
    const closed = end === 'close' ? manager.close() : undefined;
    await until(() => waiting.state === 'rejected', 'the acquisition ends');
    expect(await store.inspect('key')).toBeDefined();
    late.open();
    await closed;
    await until(() => store.inner.size === 0, 'the grant is given back');
  });

  it('gives back what a failed last attempt may have been granted, again and again until the store answers', async () => {
    const store = new FaultyStore();
    store.after.tryAcquire = failing;
    let failures = 3;
    store.before.release = () => {
      if (failures-- > 0) failing();
    };
    const manager = new LeaseManager({ store, backoff: { initial: 1, max: 2 } });
    const error = await rejectionOf(manager.acquire('key', { timeout: 30 }));
    expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', cause: { code: 'ERR_LEASE_STORE' } });
    await until(() => store.inner.size === 0, 'the grant is given back');
    expect(failures).toBe(-1);
  });

  it('does not give back by a failed attempt what its holder has by name', async () => {
    const store = new FaultyStore();
    const manager = new LeaseManager({ store, holder: 'worker' });
    const held = await manager.acquire('key');
    store.after.tryAcquire = failing;
    await rejectionOf(manager.tryAcquire('key'));
    await rejectionOf(manager.acquire('key', { timeout: 20 }));
    await delay(20);
    expect(store.count('release')).toBe(0);
    expect([held.held, (await store.inspect('key'))?.owner]).toEqual([true, 'worker']);
    await rejectionOf(manager.tryAcquire('other'));
    await until(() => store.inner.size === 1, 'what nobody holds is given back');
  });

  it('tells of a failure before it was refused, as the cause of its timeout', async () => {
    const store = new FaultyStore();
    await store.inner.tryAcquire('key', 'a', 60_000);
    let failures = 1;
    store.before.tryAcquire = () => {
      if (failures-- > 0) failing();
    };
    const manager = new LeaseManager({ store, backoff: { initial: 1, max: 5 } });
    const error = await rejectionOf(manager.acquire('key', { timeout: 200 }));
    expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', cause: { code: 'ERR_LEASE_STORE' } });
    expect((error as Error).message).toContain('another holder has it');
    expect(store.asked.length).toBeGreaterThan(1);
  });

  it('backs off between attempts, up to its maximum', async () => {
    const store = new FaultyStore();
    await store.inner.tryAcquire('key', 'a', 60_000);
    const manager = new LeaseManager({ store, backoff: { initial: 10, max: 40, jitter: 0 } });
    await rejectionOf(manager.acquire('key', { timeout: 500 }));
    // At 0, 10, 30 and 70 ms, then every 40 ms; late timers only make it fewer.
    expect(store.asked.length).toBeLessThanOrEqual(15);
    expect(store.asked.length).toBeGreaterThan(2);
  });
});

describe('a single attempt', () => {
  const calls = {
    'acquire with timeout 0': (manager: LeaseManager, signal: AbortSignal) =>
      manager.acquire('key', { timeout: 0, signal }),
    'withLease with timeout 0': (manager: LeaseManager, signal: AbortSignal, fn: () => void) =>
      manager.withLease('key', { timeout: 0, signal }, fn),
    'withLease with ifAvailable': (manager: LeaseManager, signal: AbortSignal, fn: () => void) =>
      manager.withLease('key', { ifAvailable: true, signal }, fn),
  };
  type Name = keyof typeof calls;
  const names = Object.keys(calls) as Name[];

  it.each(names)(
    'that is aborted on the wire rejects at once, runs nothing, and is given back: %s',
    async (name) => {
      const store = new FaultyStore();
      const late = gate();
      store.after.tryAcquire = late.pass;
      const abort = new AbortController();
      const reason = new Error('enough');
      let ran = false;
      const asked = calls[name](new LeaseManager({ store }), abort.signal, () => void (ran = true));
      abort.abort(reason);
      expect(await rejectionOf(asked)).toBe(reason);
      expect(getEventListeners(abort.signal, 'abort')).toHaveLength(0);
      late.open();
      await until(() => store.count('release') === 1, 'the grant is given back');
      await turns();
      expect([ran, store.inner.size]).toEqual([false, 0]);
    },
  );

  it.each(names)('leaves no listener with its signal when it was answered: %s', async (name) => {
    const store = new FaultyStore();
    const { signal } = new AbortController();
    const manager = new LeaseManager({ store });
    await calls[name](manager, signal, () => undefined);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    await manager.close();
    await store.inner.tryAcquire('key', 'a', 60_000);
    await rejectionOf(calls['acquire with timeout 0'](new LeaseManager({ store }), signal));
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  it.each([{ ifAvailable: true }, { timeout: 0 }, {}])(
    'or a grant at once, that is aborted before the function could run does not run it: %o',
    async (options) => {
      const store = new MemoryLeaseStore();
      const manager = new LeaseManager({ store });
      const abort = new AbortController();
      const reason = new Error('enough');
      let ran = false;
      const run = (): void => void (ran = true);
      const asked = manager.withLease('key', { ...options, signal: abort.signal }, run);
      abort.abort(reason);
      expect(await rejectionOf(asked)).toBe(reason);
      expect([ran, store.size]).toEqual([false, 0]);
    },
  );

  it('says that its manager was closed, if that is why it fails', async () => {
    const store = new FaultyStore();
    const late = gate();
    store.after.tryAcquire = late.pass;
    const manager = new LeaseManager({ store });
    const asked = rejectionOf(manager.acquire('key', { timeout: 0 }));
    const closed = manager.close();
    late.open();
    await closed;
    expect(await asked).toMatchObject({ code: 'ERR_LEASE_MANAGER_CLOSED' });
  });
});

describe('withLease', () => {
  it('runs the function under the lease, gives its result, and releases', async () => {
    const manager = new LeaseManager();
    expect(await manager.withLease('key', (lease) => lease.held && lease.key)).toBe('key');
    expect(manager.store).toHaveProperty('size', 0);
  });

  it('releases when the function throws or rejects', async () => {
    const manager = new LeaseManager();
    const failure = new Error('failed');
    const thrower = (): never => {
      throw failure;
    };
    expect(await rejectionOf(manager.withLease('key', thrower))).toBe(failure);
    expect(await rejectionOf(manager.withLease('key', () => Promise.reject(failure)))).toBe(failure);
    expect(manager.store).toHaveProperty('size', 0);
  });

  it('with ifAvailable calls nothing when the lease is taken', async () => {
    const manager = new LeaseManager();
    const lease = await manager.acquire('key');
    let called = false;
    const result = await manager.withLease('key', { ifAvailable: true }, () => (called = true));
    expect([result, called]).toEqual([undefined, false]);
    await lease.release();
    expect(await manager.withLease('key', { ifAvailable: true }, () => 5)).toBe(5);
  });

  it('gives the result also where the store fails to release', async () => {
    const store = new FaultyStore();
    store.before.release = failing;
    expect(await new LeaseManager({ store }).withLease('key', () => 'done')).toBe('done');
  });
});

describe('a stable holder', () => {
  it('takes its own live lease again, and the earlier one is lost', async () => {
    const manager = new LeaseManager({ holder: 'worker' });
    const first = await manager.acquire('key');
    const { signal } = first;
    const second = await manager.acquire('key');
    expect(second.token).toBeGreaterThan(first.token);
    expect([first.held, signal.aborted, second.held]).toEqual([false, true, true]);
    expect(await first.release()).toBe(false);
    expect(second.held).toBe(true);
    expect(await manager.store.inspect('key')).toMatchObject({ owner: 'worker', token: second.token });
  });

  it('does not release its new lease by a late reply to an attempt that was given up', async () => {
    const store = new FaultyStore();
    const late = gate();
    store.after.tryAcquire = late.pass;
    const manager = new LeaseManager({ store, holder: 'worker' });
    await rejectionOf(manager.acquire('key', { timeout: 10 }));
    const second = manager.acquire('key', { timeout: 20_000 });
    await delay(10);
    late.open();
    const lease = await second;
    await delay(20);
    expect(await store.inspect('key')).toMatchObject({ owner: 'worker', token: lease.token });
  });
});

describe('a reentrant manager', () => {
  it.each(['memory', 'another'])('shares its lease past those who wait for it: %s store', async (kind) => {
    const store = kind === 'memory' ? new MemoryLeaseStore() : new FaultyStore();
    const manager = new LeaseManager({ store, reentrant: true });
    const outer = await manager.acquire('key');
    const waiting = new LeaseManager({ store }).acquire('key', { timeout: 40_000 });
    const inner = await manager.acquire('key', { timeout: 20_000 });
    expect(inner.token).toBe(outer.token);
    await inner.release();
    expect(await outer.release()).toBe(true);
    expect((await waiting).held).toBe(true);
  });

  it('shares one lease among acquisitions of a key, also such that are under way', async () => {
    const store = new FaultyStore();
    const manager = new LeaseManager({ store, reentrant: true });
    const leases = await Promise.all([1, 2, 3].map(() => manager.acquire('key')));
    expect(new Set(leases.map(({ token }) => token)).size).toBe(1);
    expect(store.count('tryAcquire')).toBe(1);
    expect(await leases[0]!.release()).toBe(false);
    expect(await leases[0]!.release()).toBe(false);
    expect(await leases[1]!.release()).toBe(false);
    expect(await manager.tryAcquire('key').then((lease) => lease!.release())).toBe(false);
    expect(await leases[2]!.release()).toBe(true);
    expect(store.inner.size).toBe(0);
  });

  it('tells every one that has not released when the lease is lost', async () => {
    const manager = new LeaseManager({ reentrant: true, renew: false, ttl: 30 });
    const [one, two, three] = await Promise.all([1, 2, 3].map(() => manager.acquire('key')));
    const signals = [one!.signal, two!.signal, three!.signal];
    await three!.release();
    await until(() => signals[0]!.aborted, 'the lease is lost');
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, false]);
  });
});

describe('close', () => {
  it('releases everything, ends what waits, tells the holders, and refuses what comes later', async () => {
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
    'waits for acquisitions on the wire, and leaves nothing of theirs: %s',
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
      // Behind the first, where owners are stable: it is not even sent.
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

  it('waits until what may have been granted was given back, and does not wait for a pause', async () => {
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

  it('rejects where the store failed to release a grant that was on the wire', async () => {
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

  it('rejects where the store failed to release', async () => {
    const store = new FaultyStore();
    const manager = new LeaseManager({ store });
    await manager.acquire('key');
    store.before.release = failing;
    expect(await rejectionOf(manager.close())).toMatchObject({ code: 'ERR_LEASE_STORE' });
  });
});

describe('bad input', () => {
  const type = { code: 'ERR_INVALID_ARG_TYPE' };
  const range = { code: 'ERR_OUT_OF_RANGE' };

  it.each([
    [{ store: {} }, type],
    [{ store: 5 }, type],
    [{ ttl: 0 }, range],
    [{ ttl: 1.5 }, range],
    [{ ttl: '5' }, type],
    [{ ttl: Infinity }, range],
    [{ renew: 5 }, type],
    [{ renew: { every: 0 } }, range],
    [{ renew: { every: 30_000 } }, range],
    [{ ttl: 100, renew: { every: 100 } }, range],
    [{ maxHold: -1 }, range],
    [{ maxHold: NaN }, range],
    [{ holder: '' }, range],
    [{ holder: 5 }, type],
    [{ reentrant: 1 }, type],
    [{ backoff: { initial: 0 } }, range],
    [{ backoff: { initial: 2000 } }, range],
    [{ backoff: { jitter: 1.1 } }, range],
    [{ backoff: 5 }, type],
    [{ clock: {} }, type],
    [5, type],
    [null, type],
  ])('in the options of a manager is refused: %o', (options, error) => {
    expect(() => new LeaseManager(options as never)).toThrow(expect.objectContaining(error));
  });

  it.each([
    [['', {}], range],
    [[5, {}], type],
    [['key', 5], type],
    [['key', { ttl: 0 }], range],
    [['key', { ttl: NaN }], range],
    [['key', { ttl: 2 ** 53 }], range],
    [['key', { renew: 'yes' }], type],
    [['key', { maxHold: '5' }], type],
    [['key', { timeout: -1 }], range],
    [['key', { signal: {} }], type],
  ])('of an acquisition is refused before the store is asked: %o', async (args, error) => {
    const store = new FaultyStore();
    const manager = new LeaseManager({ store });
    expect(await rejectionOf(manager.acquire(...(args as [string])))).toMatchObject(error);
    expect(await rejectionOf(manager.withLease(...(args as [string, object]), () => 1))).toMatchObject(error);
    expect(store.asked).toEqual([]);
  });
});
