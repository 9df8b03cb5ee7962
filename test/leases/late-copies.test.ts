import { describe, expect, it } from 'vitest';
import { LeaseManager, MemoryLeaseStore, type Lease, type LeaseStore } from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { rejectionOf, turns, until, watch } from '../support/waiting.js';
import { failing, FaultyStore, gate } from './faulty-store.js';
import { ownersOf, recording, ways } from './several-stores.js';

/** Milliseconds. */
const [TTL, LONG] = [60_000, 600_000];

/** Executes the acquisition of each key again, as a store can do if a request reaches it twice. */
async function copy(store: LeaseStore, { keys, holder, tokens }: Lease): Promise<void> {
  for (const key of keys) {
    expect(await store.tryAcquire(key, holder, TTL)).toBeGreaterThan(tokens.get(key)!);
  }
}

describe.each(ways)('after a copy of its acquisition was executed, %s,', (_way, make) => {
  it.each([{ keys: ['key'] }, { keys: ['a', 'b', 'c'] }])('a lease of $keys is released', async ({ keys }) => {
    const store = make();
    const lease = await new LeaseManager({ store, ttl: TTL }).acquire(keys);
    await copy(store, lease);
    expect(await lease.renew()).toBe(true);
    expect(await lease.release()).toBe(true);
    expect(await ownersOf(store, keys)).toEqual(keys.map(() => undefined));
  });

  it('leases that are released together are freed', async () => {
    const store = make();
    const manager = new LeaseManager({ store, ttl: TTL });
    const keys = Array.from({ length: 5 }, (_, i) => `key ${i}`);
    const leases = await Promise.all(keys.map((key) => manager.acquire(key)));
    for (const lease of leases.slice(1, 4)) await copy(store, lease);
    expect(await Promise.all(leases.map((lease) => lease.release()))).toEqual(keys.map(() => true));
    expect(await ownersOf(store, keys)).toEqual(keys.map(() => undefined));
  });

  it('its key is kept for the rest of its minHold', async () => {
    const store = make();
    const lease = await new LeaseManager({ store, ttl: TTL, minHold: LONG }).acquire('key');
    await copy(store, lease);
    expect(await lease.release()).toBe(true);
    expect((await store.inspect('key'))!.remaining).toBeGreaterThan(LONG / 2);
  });

  it('its key is freed when its minHold ends before its TTL', async () => {
    const store = make();
    const lease = await new LeaseManager({ store, ttl: LONG, minHold: 100 }).acquire('key');
    await copy(store, lease);
    expect(await lease.release()).toBe(true);
    const next = await new LeaseManager({ store }).acquire('key', { timeout: TTL });
    expect(next.token).toBeGreaterThan(lease.token);
  });

  it('withLease and close free its key', async () => {
    const store = make();
    const manager = new LeaseManager({ store, ttl: TTL });
    await manager.withLease('body', (lease) => copy(store, lease));
    expect(await ownersOf(store, ['body'])).toEqual([undefined]);
    await copy(store, await manager.acquire('closed'));
    await manager.close();
    expect(await ownersOf(store, ['closed'])).toEqual([undefined]);
  });

});

describe.each(ways)('a lease that was lost, %s,', (_way, make) => {
  it('leaves the key to another process with the same holder name', async () => {
    const store = make();
    const options = { store, ttl: TTL, holder: 'me' };
    const first = await new LeaseManager(options).acquire('key');
    const second = await new LeaseManager(options).acquire('key');
    expect(await first.release()).toBe(false);
    expect(await store.inspect('key')).toMatchObject({ owner: 'me', token: second.token });
  });

  it('costs its release one more request, and the next grant stays', async () => {
    const { store, asked } = recording(make());
    const lease = await new LeaseManager({ store, ttl: TTL }).acquire('key');
    await store.release('key', lease.holder);
    const token = await store.tryAcquire('key', 'another', TTL);
    asked.length = 0;
    expect(await lease.release()).toBe(false);
    expect(asked).toEqual(['release key', 'inspect key']);
    expect(await store.inspect('key')).toMatchObject({ owner: 'another', token });
  });
});

describe('a release after a copy of the acquisition', () => {
  const failingInspect = (store: FaultyStore, times: number): LeaseStore => {
    let left = times;
    return new Proxy<LeaseStore>(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        const fails = (): boolean => name === 'inspect' && left-- > 0;
        return (...of: unknown[]): unknown => (fails() ? failing() : Reflect.apply(value, target, of));
      },
    });
  };

  it.each([0, LONG])(
    'rejects if the store cannot be inspected, and can be repeated: minHold %i',
    async (minHold) => {
      const inner = new FaultyStore();
      const store = failingInspect(inner, 1);
      const lease = await new LeaseManager({ store, ttl: TTL, minHold }).acquire('key');
      await copy(inner, lease);
      expect(await rejectionOf(lease.release())).toMatchObject({ code: 'ERR_LEASE_STORE' });
      expect(lease.held).toBe(false);
      await lease.release();
      const remaining = (await inner.inspect('key'))?.remaining;
      if (minHold === 0) expect(remaining).toBeUndefined();
      else expect(remaining).toBeGreaterThan(LONG / 2);
    },
  );

  it('is repeated by close if the store cannot be inspected', async () => {
    const inner = new FaultyStore();
    const backoff = { initial: 1, max: 2 };
    const manager = new LeaseManager({ store: failingInspect(inner, 3), ttl: TTL, backoff });
    await copy(inner, await manager.acquire('key'));
    await manager.close();
    expect(await inner.inspect('key')).toBeUndefined();
  });

  it('frees the key if the first attempt had no answer, and was executed after the second one', async () => {
    const store = new FaultyStore();
    store.before.tryAcquire = () => {
      delete store.before.tryAcquire;
      failing();
    };
    const manager = new LeaseManager({ store, ttl: TTL, backoff: { initial: 1 } });
    const lease = await manager.acquire('key', { timeout: Infinity });
    await copy(store.inner, lease);
    expect(await lease.release()).toBe(true);
    expect(await store.inspect('key')).toBeUndefined();
  });

  it('takes the key back after a renewal that was answered too late', async () => {
    const clock = new FixedClock();
    const inner = new MemoryLeaseStore({ clock });
    const answer = gate();
    const { store, asked } = recording(inner);
    const late = new Proxy(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (name !== 'renew') return value;
        return async (...of: unknown[]): Promise<unknown> => {
          const renewed: unknown = await Reflect.apply(value as () => unknown, target, of);
          await answer.pass();
          return renewed;
        };
      },
    });
    const lease = await new LeaseManager({ store: late, clock, ttl: 300, renew: false }).acquire('key');
    clock.advance(200);
    const renewing = watch(lease.renew());
    await turns();
    clock.advance(300 - 1);
    await inner.tryAcquire('key', lease.holder, TTL);
    clock.advance(1);
    answer.open();
    expect(await renewing.promise).toBe(false);
    expect(asked.slice(-3)).toEqual(['takeBack key', 'inspect key', 'takeBack key']);
    expect(await inner.inspect('key')).toBeUndefined();
  });

  it('gives back the first of several keys, if the second is refused', async () => {
    const store = new FaultyStore();
    const other = await store.inner.tryAcquire('b', 'another', TTL);
    store.after.tryAcquire = async () => {
      delete store.after.tryAcquire;
      const { owner } = (await store.inner.inspect('a'))!;
      await store.inner.tryAcquire('a', owner, TTL);
    };
    const manager = new LeaseManager({ store, ttl: TTL });
    expect(await manager.tryAcquire(['a', 'b'])).toBeUndefined();
    expect(await ownersOf(store, ['a', 'b'])).toEqual([undefined, 'another']);
    expect((await store.inspect('b'))?.token).toBe(other);
  });

  it('gives back a grant that arrives after its acquisition was aborted', async () => {
    const store = new FaultyStore();
    const late = gate();
    store.after.tryAcquire = late.pass;
    const abort = new AbortController();
    const manager = new LeaseManager({ store, ttl: TTL });
    const acquired = rejectionOf(manager.acquire('key', { signal: abort.signal }));
    await until(() => store.inner.size === 1, 'the key is granted');
    abort.abort();
    await acquired;
    const { owner } = (await store.inspect('key'))!;
    await store.inner.tryAcquire('key', owner, TTL);
    late.open();
    await until(() => store.inner.size === 0, 'the grant is given back');
  });
});
