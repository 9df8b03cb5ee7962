import { describe, expect, it } from 'vitest';
import { LeaseManager, type LeaseStore } from 'stripelock';
import { cacheLeaseStore, type CacheClient, type CacheLeaseStoreOptions } from 'stripelock/cache';
import { FixedClock } from 'stripelock/testing';
import { clientOf, coarseClientOf, FakeCache } from '../support/fake-cache.js';
import { rejectionOf, thrownBy, until } from '../support/waiting.js';

const LONG = 60_000;

function scene(options: Partial<CacheLeaseStoreOptions<bigint>> = {}): {
  cache: FakeCache;
  store: ReturnType<typeof cacheLeaseStore>;
} {
  const cache = new FakeCache();
  return { cache, store: cacheLeaseStore({ ...clientOf(cache), ...options }) };
}

/** Runs `meanwhile` once, just before the operation reaches the cache. */
function interrupted(
  client: CacheClient<bigint>,
  operation: 'add' | 'cas',
  meanwhile: () => Promise<unknown>,
): CacheClient<bigint> {
  let done = false;
  const first = async (): Promise<void> => {
    if (!done) {
      done = true;
      await meanwhile();
    }
  };
  return {
    ...client,
    add: async (...of) => (operation === 'add' && (await first()), client.add(...of)),
    cas: async (...of) => (operation === 'cas' && (await first()), client.cas(...of)),
  };
}

describe('the cache store', () => {
  it('takes a free key by add, and changes what it holds by cas; it deletes nothing', async () => {
    const { cache, store } = scene();
    await store.tryAcquire('key', 'a', LONG);
    expect(cache.asked.splice(0)).toEqual(['get', 'add']);
    await store.renew('key', 'a', LONG);
    await store.release('key', 'a');
    await store.tryAcquire('key', 'b', LONG);
    expect(cache.asked).toEqual(['get', 'cas', 'get', 'cas', 'get', 'cas']);
  });

  it('is granted nothing if another adds first, or takes a released key first', async () => {
    const { cache, store } = scene();
    for (const operation of ['add', 'cas'] as const) {
      const late = cacheLeaseStore(
        interrupted(clientOf(cache), operation, () => store.tryAcquire('key', 'quick', LONG)),
      );
      expect(await late.tryAcquire('key', 'slow', LONG)).toBeUndefined();
      expect((await store.inspect('key'))?.owner).toBe('quick');
      await store.release('key', 'quick');
    }
  });

  it('neither renews nor frees what another has taken between the look and the change', async () => {
    const changes = [
      (stale: LeaseStore) => stale.renew('key', 'a', LONG),
      (stale: LeaseStore) => stale.release('key', 'a'),
    ];
    for (const change of changes) {
      const { cache, store } = scene();
      await store.tryAcquire('key', 'a', LONG);
      const stale = cacheLeaseStore(
        interrupted(clientOf(cache), 'cas', async () => {
          cache.evict();
          await store.tryAcquire('key', 'b', LONG);
        }),
      );
      expect(await change(stale)).toBe(false);
      expect((await store.inspect('key'))?.owner).toBe('b');
    }
  });

  it('loses a lease that the cache evicts, which its holder learns at its next renewal', async () => {
    const { cache, store } = scene();
    const lease = await new LeaseManager({ store, ttl: 90 }).acquire('key');
    const { signal } = lease;
    cache.evict();
    await until(() => signal.aborted, 'the holder is told');
    expect(signal.reason).toMatchObject({ code: 'ERR_LEASE_LOST', key: 'key' });
    expect(await lease.release()).toBe(false);
  });

  it('gives rising tokens by the clock after a wipe, and one above the last where the clock stands still', async () => {
    const clock = new FixedClock(1_700_000_000_000);
    const cache = new FakeCache(() => clock.now());
    const [store, other] = [0, 1].map(() => cacheLeaseStore({ ...clientOf(cache), clock })) as [
      ReturnType<typeof cacheLeaseStore>,
      ReturnType<typeof cacheLeaseStore>,
    ];
    const first = await store.tryAcquire('key', 'a', LONG);
    expect(first).toBe(1_700_000_000_000_000_000n);
    await store.release('key', 'a');
    // A released key keeps its token, also for other clients.
    expect(await other.tryAcquire('key', 'b', LONG)).toBe(first! + 1n);
    cache.restart();
    // This client remembers what it was given.
    expect(await store.tryAcquire('key', 'a', LONG)).toBe(first! + 1n);
    cache.restart();
    clock.advance(1);
    expect(await other.tryAcquire('key', 'b', LONG)).toBe(1_700_000_000_001_000_000n);
  });

  it('keeps a lease for its TTL on a cache that counts seconds and ends entries early', async () => {
    const clock = new FixedClock(1_700_000_000_990);
    const cache = new FakeCache(() => clock.now());
    const client = coarseClientOf(cache);
    const [store, other] = [cacheLeaseStore({ ...client, clock }), cacheLeaseStore({ ...client, clock })];
    await store.tryAcquire('key', 'a', 1000);
    clock.advance(999);
    expect(await other.tryAcquire('key', 'b', 1000)).toBeUndefined();
    expect(await store.renew('key', 'a', 1000)).toBe(true);
    clock.advance(4000);
    expect(await other.tryAcquire('key', 'b', 1000)).toBeTypeOf('bigint');
  });

  it('uses names that Memcached takes, different ones for different keys', async () => {
    const { cache, store } = scene({ prefix: 'app:' });
    const keys = ['a', 'a b', '#a', 'ä', 'x'.repeat(140), 'x'.repeat(141), '\ud800', '\ud801', 'a\n', 'a\0'];
    for (const key of keys) expect(await store.tryAcquire(key, key, LONG)).toBeTypeOf('bigint');
    for (const key of keys) expect((await store.inspect(key))?.owner).toBe(key);
    expect([...cache.items.keys()].every((name) => name.startsWith('app:'))).toBe(true);
    expect(cache.items.has('app:a')).toBe(true);
  });

  it('leaves alone what is not a lease', async () => {
    const { cache, store } = scene();
    for (const value of ['', 'text', '7', '{}', '{"v":1}', '{"v":1,"token":"x"}', '{"v":2,"token":"5"}']) {
      cache.evict();
      cache.add('stripelock:key', value, LONG);
      for (const asked of [
        store.tryAcquire('key', 'a', LONG),
        store.renew('key', 'a', LONG),
        store.release('key', 'a'),
        store.inspect('key'),
      ]) {
        expect(await rejectionOf(asked)).toMatchObject({ code: 'ERR_LEASE_STORE' });
      }
      expect(cache.items.get('stripelock:key')?.value).toBe(value);
    }
  });

  it('fails with the error of the cache as cause, whether it rejects or throws', async () => {
    const broken = new Error('the cache is down');
    for (const get of [
      () => Promise.reject(broken),
      () => {
        throw broken;
      },
    ]) {
      const { store } = scene({ get });
      expect(await rejectionOf(store.tryAcquire('key', 'a', LONG))).toMatchObject({
        code: 'ERR_LEASE_STORE',
        cause: broken,
      });
    }
  });

  it('fails in bounded time if the cache hangs, and gives a late grant back', async () => {
    const cache = new FakeCache();
    const client = clientOf(cache);
    let answer: () => void = () => undefined;
    const hanging = new Promise<void>((resolve) => (answer = resolve));
    const store = cacheLeaseStore({
      ...client,
      timeout: 30,
      add: async (...of) => {
        const added = await client.add(...of);
        await hanging;
        return added;
      },
    });
    expect(await rejectionOf(store.tryAcquire('key', 'a', LONG))).toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect((await store.inspect('key'))?.owner).toBe('a');
    answer();
    await expect.poll(() => store.inspect('key'), { timeout: 20_000 }).toBeUndefined();
  });

  it('gives a late grant back, too, if the owner had the key before and released it', async () => {
    const cache = new FakeCache();
    let answer: (() => void) | undefined;
    const client = clientOf(cache);
    const store = cacheLeaseStore({
      ...client,
      timeout: 500,
      add: async (...of) => {
        const added = await client.add(...of);
        if (answer !== undefined) await new Promise<void>((resolve) => (answer = resolve));
        return added;
      },
    });
    await store.tryAcquire('key', 'a', LONG);
    await store.release('key', 'a');
    cache.evict();
    answer = () => undefined;
    expect(await rejectionOf(store.tryAcquire('key', 'a', LONG))).toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect((await store.inspect('key'))?.owner).toBe('a');
    answer();
    await expect.poll(() => store.inspect('key'), { timeout: 20_000 }).toBeUndefined();
  });

  it('has a manager do without its lost reply', async () => {
    const cache = new FakeCache();
    const client = clientOf(cache);
    let lost = false;
    const store = cacheLeaseStore({
      ...client,
      add: async (...of) => {
        const added = await client.add(...of);
        if (lost) return added;
        lost = true;
        throw new Error('the connection was lost');
      },
    });
    const lease = await new LeaseManager({ store, backoff: { initial: 2, max: 10 } }).acquire('key');
    expect(lease.held && (await lease.release())).toBe(true);
  });

  it('runs one of many workers at a time', async () => {
    const cache = new FakeCache();
    let inside = 0;
    let runs = 0;
    const workers = Array.from({ length: 8 }, async () => {
      const manager = new LeaseManager({
        store: cacheLeaseStore(clientOf(cache)),
        backoff: { initial: 1, max: 5 },
      });
      for (let i = 0; i < 5; i++) {
        await manager.withLease('job', { timeout: LONG }, async () => {
          expect(++inside).toBe(1);
          await new Promise((resolve) => setTimeout(resolve, 1));
          inside--;
          runs++;
        });
      }
    });
    await Promise.all(workers);
    expect(runs).toBe(40);
  });

  it('refuses bad options', () => {
    const client = clientOf(new FakeCache());
    const wrong: readonly (readonly [unknown, string])[] = [
      [undefined, 'ERR_INVALID_ARG_TYPE'],
      [{ ...client, get: undefined }, 'ERR_INVALID_ARG_TYPE'],
      [{ ...client, add: 5 }, 'ERR_INVALID_ARG_TYPE'],
      [{ ...client, cas: null }, 'ERR_INVALID_ARG_TYPE'],
      [{ ...client, prefix: 5 }, 'ERR_INVALID_ARG_TYPE'],
      [{ ...client, prefix: 'a b' }, 'ERR_OUT_OF_RANGE'],
      [{ ...client, prefix: 'x'.repeat(101) }, 'ERR_OUT_OF_RANGE'],
      [{ ...client, timeout: -1 }, 'ERR_OUT_OF_RANGE'],
      [{ ...client, drift: 2 }, 'ERR_OUT_OF_RANGE'],
      [{ ...client, clock: {} }, 'ERR_INVALID_ARG_TYPE'],
    ];
    for (const [options, code] of wrong) {
      expect(thrownBy(() => cacheLeaseStore(options as never))).toMatchObject({ code });
    }
  });

  it('waits longer for its answers if the event loop was blocked', async () => {
    const { store } = scene({ timeout: 200 });
    const asked = store.tryAcquire('key', 'a', LONG);
    const start = performance.now();
    while (performance.now() - start < 600);
    // Two requests of two turns each come after that.
    expect(await asked).toBeTypeOf('bigint');
  });
});
