import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager, MemoryLeaseStore, type LeaseStore, type SeveralKeysLeaseStore } from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { rejectionOf, turns, until } from '../support/waiting.js';
import { failing, FaultyStore, gate } from './faulty-store.js';
import { onFaultyStore } from './fixed-time.js';
import { inOneStep, ownersOf, recording, ways } from './several-stores.js';

const backoff = { initial: 2, max: 10 };

describe('what a lease of several keys asks of its store', () => {
  it('one request for each operation, if the store can do them in one step', async () => {
    const { store, asked } = recording(inOneStep());
    const clock = new FixedClock();
    const manager = new LeaseManager({ store, clock, ttl: 60_000 });
    const lease = await manager.acquire(['b', 'a']);
    for (let i = 0; i < 2; i++) {
      clock.advance(20_000);
      await turns(1);
    }
    await lease.renew();
    await lease.release();
    expect(asked).toEqual([
      'tryAcquireAll a,b',
      ...['renewAll a,b', 'renewAll a,b', 'renewAll a,b'],
      'releaseAll b,a',
    ]);
  });

  it('one key after the other in order, and the reverse, if the store has the usual operations only', async () => {
    const { store, asked } = recording(new FaultyStore());
    const manager = new LeaseManager({ store });
    const lease = await manager.acquire(['b', 'c', 'a']);
    await lease.renew();
    await lease.release();
    expect(asked).toEqual([
      ...['tryAcquire a', 'tryAcquire b', 'tryAcquire c'],
      ...['renew a', 'renew b', 'renew c'],
      ...['release c', 'release b', 'release a'],
    ]);
  });

  it('rolls back in reverse when a later key is refused, or the store fails', async () => {
    const { store, asked } = recording(new FaultyStore());
    await store.tryAcquire('c', 'other', 60_000);
    const manager = new LeaseManager({ store });
    expect(await manager.tryAcquire(['a', 'b', 'c'])).toBeUndefined();
    expect(asked.slice(4)).toEqual(['release b', 'release a']);
    expect(await ownersOf(store, ['a', 'b'])).toEqual([undefined, undefined]);
  });

  it('asks one key after the other where the store cannot reach them in one step', async () => {
    const { store, asked } = recording(Object.assign(inOneStep(), { inOneStep: () => false }));
    await (await new LeaseManager({ store }).acquire(['a', 'b'])).release();
    expect(asked).toEqual(['tryAcquire a', 'tryAcquire b', 'release b', 'release a']);
  });

  it('renews all keys at the time of the first, so that they keep one deadline', async () => {
    const { manager, store, pass } = onFaultyStore();
    const lease = await manager.acquire(['a', 'b', 'c']);
    for (let i = 1; i <= 3; i++) {
      await pass(100);
      expect(store.count('renew')).toBe(3 * i);
      expect(lease.expiresAt).toBe(100 * i + 300);
    }
  });

  it('one request to renew all leases of one holder that are due together', async () => {
    const { store, asked } = recording(inOneStep());
    const clock = new FixedClock();
    const manager = new LeaseManager({ store, clock, ttl: 60_000, holder: 'me' });
    for (const key of ['a', 'b', 'c']) await manager.acquire(key);
    asked.length = 0;
    clock.advance(20_000);
    await turns(1);
    expect(asked).toHaveLength(1);
    expect(asked[0]?.split(/[ ,]/).sort()).toEqual(['a', 'b', 'c', 'renewAll']);
    await manager.close();
  });

  it('one request for each key after a request for several failed: a bad key ends its own lease only', async () => {
    const { store, clock, bad } = spoilt();
    const manager = new LeaseManager({ store, clock, ttl: 300, holder: 'me' });
    const keys = Array.from({ length: 20 }, (_, i) => `key ${i}`);
    const leases = await Promise.all(keys.map((key) => manager.acquire(key)));
    bad.add('key 7');
    for (let i = 0; i < 100; i++) {
      clock.advance(10);
      await turns(2);
    }
    expect(leases.filter(({ held }) => !held).map(({ key }) => key)).toEqual(['key 7']);
    bad.clear();
    await manager.close();
    expect(await ownersOf(store, keys)).toEqual(keys.map(() => undefined));
  });

  it('one request for each key after a release of several failed, and says what is known of each', async () => {
    const { store, clock, bad } = spoilt();
    const manager = new LeaseManager({ store, clock, holder: 'me' });
    const leases = await Promise.all(['a', 'b', 'c'].map((key) => manager.acquire(key)));
    bad.add('b');
    // The first request frees what comes before the bad key, and its answer does not say so.
    const [a, b, c] = await Promise.allSettled(leases.map((lease) => lease.release()));
    expect(a).toMatchObject({ status: 'rejected', reason: { code: 'ERR_LEASE_STORE' } });
    expect(b).toMatchObject({ status: 'rejected', reason: { code: 'ERR_LEASE_STORE' } });
    expect(c).toEqual({ status: 'fulfilled', value: true });
    expect(await ownersOf(store, ['a', 'b', 'c'])).toEqual([undefined, 'me', undefined]);
    bad.clear();
    expect(await leases[0]!.release()).toBe(false);
    expect(await leases[1]!.release()).toBe(true);
  });

  it.each<[string, number, () => LeaseStore]>([
    ['one request each time in an outage, if the store decides each key by itself', 1, inOneStep],
    ['three requests each time in an outage, if one bad key may be the reason', 3, () => spoilt().store],
  ])('%s', async (_what, most, make) => {
    const outage = new Set<string>();
    const { store, asked } = recording(failingAt(make(), outage));
    const clock = new FixedClock();
    const backoff = { initial: 1000, max: 1000 };
    const manager = new LeaseManager({ store, clock, ttl: 60_000, holder: 'me', backoff });
    const keys = Array.from({ length: 50 }, (_, i) => `key ${i}`);
    const leases = await Promise.all(keys.map((key) => manager.acquire(key)));
    for (const operation of ['renew', 'renewAll', 'renewEach']) outage.add(operation);
    clock.advance(19_999);
    for (let time = 20_000; time < 25_000; time += 1000) {
      asked.length = 0;
      clock.advance(time === 20_000 ? 1 : 1000);
      await turns();
      expect(asked).toHaveLength(most);
    }
    outage.clear();
    clock.advance(1000);
    await turns();
    expect(leases.map(({ expiresAt }) => expiresAt)).toEqual(keys.map(() => 85_000));
    await manager.close();
  });

  it.each(['renew', 'release'] as const)(
    'asks for the keys alone, and %ss them, if the store cannot say whether one step reaches them',
    async (operation) => {
      const { store, asked } = recording(
        Object.assign(spoilt().store, {
          inOneStep: () => {
            throw new Error('the slots of the cluster are unknown');
          },
        }),
      );
      const manager = new LeaseManager({ store, holder: 'me' });
      const leases = await Promise.all(['a', 'b', 'c'].map((key) => manager.acquire(key)));
      asked.length = 0;
      const results = await Promise.allSettled(leases.map((lease) => lease[operation]()));
      expect(results).toEqual(leases.map(() => ({ status: 'fulfilled', value: true })));
      expect([...asked].sort()).toEqual(['a', 'b', 'c'].map((key) => `${operation} ${key}`));
    },
  );

  it('settles each request with the error, if such a store decides each key by itself', async () => {
    const failure = new Error('the slots of the cluster are unknown');
    const store = Object.assign(inOneStep(), {
      inOneStep: () => {
        throw failure;
      },
    });
    const manager = new LeaseManager({ store, holder: 'me' });
    const leases = await Promise.all(['a', 'b'].map((key) => manager.acquire(key)));
    const errors = await Promise.all(leases.map((lease) => rejectionOf(lease.renew())));
    expect(errors.map((error) => (error as Error).cause)).toEqual([failure, failure]);
    expect(leases.map(({ held }) => held)).toEqual([true, true]);
  });

  it('renews nothing any more when one key was lost', async () => {
    const { manager, store, pass } = onFaultyStore();
    const lease = await manager.acquire(['a', 'b', 'c']);
    await store.inner.release('b', lease.holder);
    await pass(100);
    expect([lease.held, store.count('renew')]).toEqual([false, 3]);
    await pass(400);
    expect(store.count('renew')).toBe(3);
    expect(await ownersOf(store, ['a', 'c'])).toEqual([undefined, undefined]);
  });

  it('tries failed renewals again until the deadline, at which it is lost as a whole', async () => {
    const { manager, store, pass } = onFaultyStore();
    const lease = await manager.acquire(['a', 'b']);
    const { signal } = lease;
    store.before.renew = failing;
    await pass(299);
    expect([lease.held, signal.aborted]).toEqual([true, false]);
    await pass(1);
    expect([lease.held, signal.aborted]).toEqual([false, true]);
    expect(signal.reason).toMatchObject({ code: 'ERR_LEASE_LOST', cause: { code: 'ERR_LEASE_STORE' } });
    const before = store.count('renew');
    await pass(300);
    expect(store.count('renew')).toBe(before);
  });
});

/** A store for several keys that fails at a bad one, after it has done what comes before. */
function spoilt(): { store: LeaseStore; clock: FixedClock; bad: Set<string> } {
  const clock = new FixedClock();
  const inner = new MemoryLeaseStore({ clock });
  const bad = new Set<string>();
  const each = async <T>(keys: readonly string[], operation: (key: string) => Promise<T>): Promise<T[]> => {
    const results: T[] = [];
    for (const key of keys) {
      if (bad.has(key)) throw new Error(`something else is at ${key}`);
      results.push(await operation(key));
    }
    return results;
  };
  const store: SeveralKeysLeaseStore = {
    tryAcquire: (...of) => inner.tryAcquire(...of),
    renew: (key, owner, ttl) => each([key], () => inner.renew(key, owner, ttl)).then(([one]) => one!),
    release: (key, owner) => each([key], () => inner.release(key, owner)).then(([one]) => one!),
    inspect: (key) => inner.inspect(key),
    tryAcquireAll: () => Promise.reject(new Error('not used')),
    renewAll: (keys, owner, ttl) => each(keys, (key) => inner.renew(key, owner, ttl)),
    releaseAll: (keys, owner) => each(keys, (key) => inner.release(key, owner)),
  };
  return { store, clock, bad };
}

/** Fails in the operations that are in the set. */
function failingAt(store: LeaseStore, operations: ReadonlySet<string>): LeaseStore {
  return new Proxy(store, {
    get(target, name) {
      if (operations.has(String(name))) return () => Promise.reject(new Error('the network is down'));
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

/** Loses the reply to one acquisition, after the store has executed it. */
function losingReply(store: LeaseStore, operation: string, at: number): LeaseStore {
  let calls = 0;
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (name !== operation) return value.bind(target) as unknown;
      return async (...of: unknown[]): Promise<unknown> => {
        const result: unknown = await Reflect.apply(value, target, of);
        if (calls++ === at) throw new Error('the connection was lost');
        return result;
      };
    },
  });
}

describe.each([
  ['in one step', () => losingReply(inOneStep(), 'tryAcquireAll', 0)],
  ['of the first key', () => losingReply(new FaultyStore(), 'tryAcquire', 0)],
  ['of the last key', () => losingReply(new FaultyStore(), 'tryAcquire', 2)],
] as const)('if the reply to the acquisition %s is lost', (_what, make) => {
  it('acquire does not wait for its own lost grants', async () => {
    const store = make();
    const manager = new LeaseManager({ store, backoff });
    const lease = await manager.acquire(['a', 'b', 'c'], { timeout: 20_000 });
    expect(lease.held).toBe(true);
    expect(await ownersOf(store, lease.keys)).toEqual([lease.holder, lease.holder, lease.holder]);
    await lease.release();
    await manager.close();
    expect(await ownersOf(store, ['a', 'b', 'c'])).toEqual([undefined, undefined, undefined]);
  });

  it('a single attempt fails, and leaves the keys to others', async () => {
    const store = make();
    const manager = new LeaseManager({ store, backoff });
    expect(await rejectionOf(manager.tryAcquire(['a', 'b', 'c']))).toMatchObject({ code: 'ERR_LEASE_STORE' });
    const other = new LeaseManager({ store, backoff });
    const lease = await other.acquire(['a', 'b', 'c'], { timeout: 20_000 });
    await lease.release();
  });
});

it('frees what a failed rollback has left, when the store answers again', async () => {
  const store = new FaultyStore();
  await store.inner.tryAcquire('b', 'other', 60_000);
  let failures = 3;
  store.before.release = () => {
    if (failures-- > 0) failing();
  };
  expect(await new LeaseManager({ store, backoff }).tryAcquire(['a', 'b'])).toBeUndefined();
  const lease = await new LeaseManager({ store, backoff }).acquire('a', { timeout: 20_000 });
  expect(lease.held).toBe(true);
});

it('keeps what it is granted when the store executes a failed rollback late', async () => {
  const store = new FaultyStore();
  await store.inner.tryAcquire('b', 'other', 60_000);
  const late: (() => Promise<boolean>)[] = [];
  const release = store.release.bind(store);
  store.release = (key, owner) => {
    if (late.length > 0) return release(key, owner);
    late.push(() => store.inner.release(key, owner));
    return Promise.reject(new Error('no reply in time'));
  };
  const acquired = new LeaseManager({ store, backoff }).acquire(['a', 'b'], { timeout: 20_000 });
  await until(() => late.length > 0, 'the rollback of "a" has failed');
  await store.inner.release('b', 'other');
  const lease = await acquired;
  await late[0]!();
  expect(await ownersOf(store, ['a', 'b'])).toEqual([lease.holder, lease.holder]);
});

it('asks for one thing at a time, whatever queues it goes through', async () => {
  const made = inOneStep();
  const asking = new Map<string, number>();
  let most = 0;
  const slow = new Proxy(made, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (name !== 'tryAcquire' && name !== 'tryAcquireAll') return value.bind(target) as unknown;
      return async (keys: unknown, owner: string, ...of: unknown[]): Promise<unknown> => {
        asking.set(owner, (asking.get(owner) ?? 0) + 1);
        most = Math.max(most, asking.get(owner)!);
        await turns(1);
        asking.set(owner, asking.get(owner)! - 1);
        return Reflect.apply(value, target, [keys, owner, ...of]) as unknown;
      };
    },
  });
  const managers = [1, 2].map(() => new LeaseManager({ store: slow, backoff }));
  const sets = [['a', 'b'], ['b', 'c'], ['c', 'a'], ['a'], ['c']];
  await Promise.all(
    [...sets, ...sets, ...sets].map((keys, i) =>
      managers[i % 2]!.withLease(keys, { timeout: 60_000 }, () => turns(1)),
    ),
  );
  expect(most).toBe(1);
});

it('an acquisition that was aborted on the wire gives back what it gets, and close waits for that', async () => {
  for (const [operation, made] of [
    ['tryAcquire', new FaultyStore()],
    ['tryAcquireAll', inOneStep()],
  ] as const) {
    const door = gate();
    const slow = new Proxy(made, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        return async (...of: unknown[]): Promise<unknown> => {
          if (name === operation) await door.pass();
          return Reflect.apply(value, target, of) as unknown;
        };
      },
    });
    const manager = new LeaseManager({ store: slow });
    const abort = new AbortController();
    const { signal } = abort;
    const acquired = rejectionOf(manager.acquire(['a', 'b'], { signal }));
    const tried = rejectionOf(manager.withLease(['c', 'd'], { ifAvailable: true, signal }, () => 'ran'));
    await turns();
    abort.abort();
    expect(await acquired).toBe(signal.reason);
    expect(await tried).toBe(signal.reason);
    const closed = manager.close();
    door.open();
    await closed;
    expect(await ownersOf(made, ['a', 'b', 'c', 'd'])).toEqual([undefined, undefined, undefined, undefined]);
  }
});

it('a store that always fails is asked with pauses, and its error is the cause of the timeout', async () => {
  const store = new FaultyStore();
  const { store: recorded, asked } = recording(store);
  // It grants one key, and never the other.
  store.before.tryAcquire = () => {
    if (asked.at(-1) === 'tryAcquire b') failing();
  };
  const manager = new LeaseManager({ store: recorded, backoff: { initial: 10, max: 40, jitter: 0 } });
  const error = await rejectionOf(manager.acquire(['a', 'b'], { timeout: 500 }));
  expect(error).toMatchObject({
    code: 'ERR_LOCK_TIMEOUT',
    keys: ['a', 'b'],
    cause: { code: 'ERR_LEASE_STORE' },
  });
  // At most one round every 10 ms at first, and every 40 ms later.
  expect(asked.filter((one) => one.startsWith('tryAcquire')).length).toBeLessThan(60);
  // It also asks whether it was granted the other one, without an answer.
  await until(() => asked.at(-1) === 'inspect b', 'what it took is given back');
  expect(await ownersOf(store, ['a', 'b'])).toEqual([undefined, undefined]);
});

describe.each(ways)('leases that share keys, taken %s', (_way, make) => {
  it('in a reentrant manager, each key is released by the last that uses it', async () => {
    const store = make();
    const manager = new LeaseManager({ store, reentrant: true });
    const outer = await manager.acquire(['a', 'b']);
    const inner = await manager.acquire('b');
    const other = await manager.acquire(['b', 'c']);
    expect(inner.token).toBe(outer.tokens.get('b'));
    expect(other.tokens.get('b')).toBe(outer.tokens.get('b'));
    const { holder } = outer;
    expect(await outer.release()).toBe(false);
    expect(await ownersOf(store, ['a', 'b', 'c'])).toEqual([undefined, holder, holder]);
    expect([outer.held, inner.held, other.held]).toEqual([false, true, true]);
    expect(await other.release()).toBe(false);
    expect(await ownersOf(store, ['a', 'b', 'c'])).toEqual([undefined, holder, undefined]);
    expect(await inner.release()).toBe(true);
    expect(await ownersOf(store, ['b'])).toEqual([undefined]);
  });

  it('in a reentrant manager, a lost key does not end the keys that other leases share', async () => {
    const store = make();
    const manager = new LeaseManager({ store, reentrant: true });
    const outer = await manager.acquire(['a', 'b']);
    const shares = await manager.acquire('a');
    await store.release('b', outer.holder);
    expect(await outer.renew()).toBe(false);
    expect([outer.held, shares.held]).toEqual([false, true]);
    expect(await outer.release()).toBe(false);
    expect(await shares.renew()).toBe(true);
    expect(await shares.release()).toBe(true);
  });

  it('under one holder name, a key that is taken again ends the lease that had it', async () => {
    const store = make();
    const manager = new LeaseManager({ store, holder: 'me' });
    const first = await manager.acquire(['a', 'b']);
    const again = await manager.acquire(['b', 'c']);
    expect([first.held, again.held]).toEqual([false, true]);
    expect(again.tokens.get('b')).toBeGreaterThan(first.tokens.get('b')!);
    expect(await first.release()).toBe(false);
    // The rest of the first lease is free, the second one is untouched.
    expect(await ownersOf(store, ['a', 'b', 'c'])).toEqual([undefined, 'me', 'me']);
    expect(await again.release()).toBe(true);
  });
});

it('publishes a message for each key', async () => {
  const messages: string[] = [];
  for (const event of ['acquired', 'lost', 'released']) {
    const listener = (message: unknown): void =>
      void messages.push(`${event} ${(message as { key: string }).key}`);
    subscribe(`stripelock:lease:${event}`, listener);
    onTestFinished(() => void unsubscribe(`stripelock:lease:${event}`, listener));
  }
  const clock = new FixedClock();
  const manager = new LeaseManager({ clock, renew: false, ttl: 20 });
  await (await manager.acquire(['b', 'a'])).release();
  const lost = await manager.acquire(['b', 'a']);
  clock.advance(20);
  expect(lost.held).toBe(false);
  expect(messages.slice(0, 6)).toEqual([
    'acquired a',
    'acquired b',
    'released b',
    'released a',
    'acquired a',
    'acquired b',
  ]);
  expect(messages.slice(6).sort()).toEqual(['lost a', 'lost b']);
});
