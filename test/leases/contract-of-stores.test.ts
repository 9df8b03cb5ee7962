import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { MemoryLeaseStore, type ExactLeaseStore, type LeaseStore } from 'stripelock';
import { FixedClock, leaseStoreContract, type MakeStore } from 'stripelock/testing';
import { keptOwner } from '../../unbundled/lease/contract/lease-store.js';

/** Which sentences of the contract the stores break. `named`: only those. */
async function brokenBy(makeStore: MakeStore, named?: string): Promise<string[]> {
  const sentences: [name: string, test: () => Promise<void>][] = [];
  const framework = {
    describe: (_name: string, define: () => void) => {
      define();
    },
    it: (name: string, test: () => Promise<void>) => sentences.push([name, test]),
  };
  leaseStoreContract(framework, 'store', makeStore);
  expect(sentences.length).toBeGreaterThan(30);
  const broken: string[] = [];
  for (const [name, test] of sentences) {
    if (named !== undefined && name !== named) continue;
    try {
      await test();
    } catch {
      broken.push(name);
    }
  }
  return broken;
}

/** A store on a clock that stands still, whose operations are changed. */
function changed(
  change: (store: LeaseStore) => Partial<LeaseStore>,
  settings: { late?: number } = {},
): MakeStore {
  return () => {
    const clock = new FixedClock();
    const correct = new MemoryLeaseStore({ clock });
    const store: LeaseStore = {
      tryAcquire: (...of) => correct.tryAcquire(...of),
      renew: (...of) => correct.renew(...of),
      release: (...of) => correct.release(...of),
      inspect: (key) => correct.inspect(key),
    };
    const under = { ...store, ...change(store) };
    return { store: under, advance: (ms: number) => clock.advance(ms), ...settings };
  };
}

it('holds of a correct store', async () => {
  expect(await brokenBy(changed(() => ({})))).toEqual([]);
});

it('finds that an owner is read as a field of what is stored', async () => {
  const owned = async (store: LeaseStore, key: string, owner: string): Promise<string> =>
    owner === '$owner' ? ((await store.inspect(key))?.owner ?? 'nobody') : owner;
  const broken = await brokenBy(
    changed((store) => ({
      tryAcquire: async (key, owner, ttl) => store.tryAcquire(key, await owned(store, key, owner), ttl),
    })),
  );
  expect(broken).toEqual([
    'are owners like others, each of whom is shown as he is, and is the only one to renew and release',
    'do not let an owner at the lease of another',
  ]);
});

it('finds that a key is read as a pattern', async () => {
  const known = new Set<string>();
  const match = (key: string): string => (key === '%' ? ([...known][0] ?? key) : key);
  const broken = await brokenBy(
    changed((store) => ({
      tryAcquire(key, owner, ttl) {
        known.add(match(key));
        return store.tryAcquire(match(key), owner, ttl);
      },
    })),
  );
  expect(broken).toEqual(['are keys like others, as which they never collide']);
});

it.each([
  ['refused', (): string => expect.fail('the key is too long')],
  ['cut', (key: string): string => key.slice(0, 2704)],
  ['compared by its end', (key: string): string => key.slice(-2704)],
])('finds that a long key is %s', async (_what, shorten) => {
  const short = (key: string): string => (key.length <= 2704 ? key : shorten(key));
  const broken = await brokenBy(
    changed((store) => ({
      // Not `async`: what is not a key is refused as it is.
      tryAcquire: (key, ...rest) => store.tryAcquire(typeof key === 'string' ? short(key) : key, ...rest),
    })),
  );
  expect(broken).toEqual([
    'are no different if they are long: keys of 10 KB that differ at their beginning, or at their end',
  ]);
});

const isTtl = (ttl: unknown): boolean => Number.isInteger(ttl) && (ttl as number) >= 1;
const endsLate = (store: LeaseStore): Partial<LeaseStore> => ({
  tryAcquire: (key, owner, ttl) => store.tryAcquire(key, owner, isTtl(ttl) ? ttl + 500 : ttl),
  renew: (key, owner, ttl) => store.renew(key, owner, isTtl(ttl) ? ttl + 500 : ttl),
});

it('finds that leases end late, unless that is allowed', async () => {
  expect(await brokenBy(changed(endsLate))).toContain('it lasts for its TTL, and not for longer');
  expect(await brokenBy(changed(endsLate, { late: 499 }))).toContain(
    'it lasts for its TTL, and not for longer',
  );
  expect(await brokenBy(changed(endsLate, { late: 500 }))).toEqual([]);
});

it('gives a slow store longer leases, until they are long enough to decide', async () => {
  const sentence = 'renewal extends it from the time of the renewal on, again and again';
  const delays = (milliseconds: number): MakeStore => {
    const slow = (): Promise<void> => delay(milliseconds);
    return () => {
      const correct = new MemoryLeaseStore();
      const store: LeaseStore = {
        tryAcquire: (...of) => slow().then(() => correct.tryAcquire(...of)),
        renew: (...of) => slow().then(() => correct.renew(...of)),
        release: (...of) => slow().then(() => correct.release(...of)),
        inspect: (key) => slow().then(() => correct.inspect(key)),
      };
      return { store, ttl: 60 };
    };
  };
  expect(await brokenBy(delays(10), sentence)).toEqual([]);
  expect(await brokenBy(delays(80), sentence)).toEqual([sentence]);
});

it.each([
  'it is abandoned after renewals, too',
  'a refused attempt and a late release do not change that',
  'a grant that was kept to its end was released',
  'a minHold that ends is no abandonment',
])('gives a store that was too slow once another start: %s', async (sentence) => {
  const ttl = 60;
  let starts = 0;
  const makeStore: MakeStore = () => {
    const isSlow = ++starts === 1;
    const store = new Proxy(new MemoryLeaseStore(), {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        return (...of: unknown[]): unknown => {
          const call = (): unknown => Reflect.apply(value, target, of);
          const isLate = ['renew', 'keep', 'release'].includes(String(name)) || of[1] === 'refused';
          return isSlow && isLate ? delay(2 * ttl).then(call) : call();
        };
      },
    });
    return { store, ttl, reportsAbandonment: true };
  };
  expect(await brokenBy(makeStore, sentence)).toEqual([]);
  expect(starts).toBeGreaterThan(1);
});

it('finds that leases end early, however late they may end', async () => {
  const endsEarly = (store: LeaseStore): Partial<LeaseStore> => ({
    tryAcquire: (key, owner, ttl) => store.tryAcquire(key, owner, ttl === 10_000 ? ttl / 2 : ttl),
    renew: (key, owner, ttl) => store.renew(key, owner, ttl === 10_000 ? ttl / 2 : ttl),
  });
  expect(await brokenBy(changed(endsEarly, { late: 5000 }))).toContain(
    'renewal extends it from the time of the renewal on, again and again',
  );
});

it('finds that another grant to the same owner shortens its lease', async () => {
  const shortens = (store: LeaseStore): Partial<LeaseStore> => ({
    async tryAcquire(key, owner, ttl) {
      if (ttl > 0 && (await store.inspect(key))?.owner === owner) await store.release(key, owner);
      return store.tryAcquire(key, owner, ttl);
    },
  });
  expect(await brokenBy(changed(shortens))).toEqual([
    'another grant to the same owner does not shorten its lease',
  ]);
});

it('finds that a key that is kept is granted to its last owner', async () => {
  const makeStore: MakeStore = () => {
    const clock = new FixedClock();
    const correct = new MemoryLeaseStore({ clock });
    const store: ExactLeaseStore = {
      async tryAcquire(key, owner, ttl) {
        await correct.release(key, keptOwner(owner));
        return correct.tryAcquire(key, owner, ttl);
      },
      renew: (...of) => correct.renew(...of),
      keep: (...of) => correct.keep(...of),
      inspect: (key) => correct.inspect(key),
      release: (...of) => correct.release(...of),
    };
    return { store, advance: (ms) => clock.advance(ms) };
  };
  expect(await brokenBy(makeStore)).toContain(
    'after `keep`, no request of the owner changes anything until the key is free',
  );
});

it('finds that a release frees the next grant of its holder when it comes for the third time', async () => {
  const makeStore: MakeStore = () => {
    const clock = new FixedClock();
    const correct = new MemoryLeaseStore({ clock });
    const arrived: unknown[] = [];
    const store: ExactLeaseStore = {
      tryAcquire: (...of) => correct.tryAcquire(...of),
      renew: (...of) => correct.renew(...of),
      keep: (...of) => correct.keep(...of),
      inspect: (key) => correct.inspect(key),
      release(key, owner, token) {
        arrived.push(token);
        const times = arrived.filter((one) => one !== undefined && one === token).length;
        return correct.release(key, owner, times < 3 ? token : undefined);
      },
    };
    return { store, advance: (ms) => clock.advance(ms) };
  };
  expect(await brokenBy(makeStore)).toContain(
    'of a lease that has ended they change nothing of the next one of that holder',
  );
});
