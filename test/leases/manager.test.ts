import { describe, expect, it } from 'vitest';
import { LeaseManager, LeaseStoreError, MemoryLeaseStore } from 'stripelock';
import { rejectionOf } from '../support/waiting.js';
import { failing, FaultyStore } from './faulty-store.js';
import { onFixedClock } from './fixed-time.js';

describe('tryAcquire', () => {
  it('grants a free key, and returns undefined for one that another holder has', async () => {
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

  it('uses the overrides of a subclass of the memory store', async () => {
    class Failing extends MemoryLeaseStore {
      override tryAcquire(): Promise<bigint | undefined> {
        return Promise.reject(new Error('overridden'));
      }
    }
    const error = await rejectionOf(new LeaseManager({ store: new Failing() }).tryAcquire('key'));
    expect(error).toMatchObject({ code: 'ERR_LEASE_STORE', cause: { message: 'overridden' } });
  });

  it.each(['tryAcquire', 'release'] as const)(
    'still uses the store for the rest if a subclass has its own %s',
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

it('ends a lease before its minHold by the `keep` of a subclass of the memory store', async () => {
  const kept: string[] = [];
  class Keeping extends MemoryLeaseStore {
    override keep(...of: Parameters<MemoryLeaseStore['keep']>): Promise<boolean> {
      kept.push(of[0]);
      return super.keep(...of);
    }
  }
  const store = new Keeping();
  const lease = await new LeaseManager({ store, minHold: 60_000 }).acquire('key');
  expect(await lease.release()).toBe(true);
  expect(kept).toEqual(['key']);
  expect((await store.inspect('key'))?.token).toBe(lease.token);
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

  it('gives the result even if the store fails to release', async () => {
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
});

describe('an option that a method does not have', () => {
  const { signal } = new AbortController();
  it.each([
    ['tryAcquire', { timeout: 100 }],
    ['tryAcquire', { signal }],
    ['tryAcquire', { signal: AbortSignal.abort() }],
    ['tryAcquire', { ifAvailable: true }],
    ['acquire', { ifAvailable: true }],
    ['acquire', { ifAvailable: false }],
  ] as const)('is refused: %s(key, %o)', async (method, options) => {
    const manager = new LeaseManager();
    const error = await rejectionOf(manager[method]('key', options as never));
    expect(error).toMatchObject({ name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' });
    expect((error as Error).message).toContain(`options.${Object.keys(options)[0]!} is not an option`);
    expect(await manager.store.inspect('key')).toBeUndefined();
  });

  it('is accepted by withLease, which has them all, and rejects with the reason of an aborted signal', async () => {
    const manager = new LeaseManager();
    for (const ifAvailable of [true, false]) {
      const options = { timeout: 100, limit: 2, ttl: 1000, signal, ifAvailable };
      expect([0, 1]).toContain(await manager.withLease('key', options, ({ slot }) => slot));
      const aborted = { ...options, signal: AbortSignal.abort(new Error('enough')) };
      await expect(manager.withLease('key', aborted, () => 0)).rejects.toThrow('enough');
    }
  });
});

describe('a reentrant manager', () => {
  it.each(['memory', 'another'])('shares its lease ahead of waiters: %s store', async (kind) => {
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

  it('shares one lease among acquisitions of a key, including pending ones', async () => {
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

  it('notifies every user that has not released when the lease is lost', async () => {
    const { clock, manager } = onFixedClock({ reentrant: true, renew: false });
    const [one, two, three] = await Promise.all([1, 2, 3].map(() => manager.acquire('key')));
    const signals = [one!.signal, two!.signal, three!.signal];
    await three!.release();
    clock.advance(300);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, false]);
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
