import type { LeaseStore } from '../lease/contract/lease-store.js';
import type { SeveralKeysLeaseStore } from '../lease/contract/several-keys.js';
import { LeaseManager } from '../lease/manager.js';
import { codeOf, type Scene, type Sentence } from './framework.js';

/** A TTL that does not expire in these tests, in milliseconds. */
const LONG = 600_000;
const KEYS = ['a', 'b', 'c'];

/**
 * Returns the store if it can acquire these keys in one step. Otherwise returns undefined,
 * because the rule does not apply.
 */
export function oneStep(
  store: LeaseStore,
  keys: readonly string[] = KEYS,
): SeveralKeysLeaseStore | undefined {
  const several = store as Partial<SeveralKeysLeaseStore> & LeaseStore;
  if (typeof several.tryAcquireAll !== 'function') return undefined;
  return several.inOneStep?.(keys) === false ? undefined : (several as SeveralKeysLeaseStore);
}

/** The owner of each key. */
async function ownersOf(on: Scene, keys: readonly string[] = KEYS): Promise<(string | undefined)[]> {
  const owners: (string | undefined)[] = [];
  for (const key of keys) owners.push((await on.store.inspect(key))?.owner);
  return owners;
}

/** The rules for stores that acquire several keys in one step. */
export const severalKeys: readonly Sentence[] = [
  [
    'all are granted in one step, each with its token, in the order of the keys',
    async (on) => {
      const tokens = await oneStep(on.store)?.tryAcquireAll(['c', 'a', 'b'], 'me', LONG);
      if (tokens === undefined) return;
      if (typeof tokens === 'number') throw new Error(`key ${tokens} was refused`);
      on.expect(await ownersOf(on)).toEqual(['me', 'me', 'me']);
      const kept = [];
      for (const key of ['c', 'a', 'b']) kept.push((await on.store.inspect(key))?.token);
      on.expect(kept).toEqual(tokens);
    },
  ],
  [
    'none is granted if another owner has one of them, whose place is the answer',
    async (on) => {
      if (!oneStep(on.store)) return;
      await on.store.tryAcquire('b', 'you', LONG);
      on.expect(await oneStep(on.store)?.tryAcquireAll(KEYS, 'me', LONG)).toBe(1);
      on.expect(await oneStep(on.store)?.tryAcquireAll(['b', 'a'], 'me', LONG)).toBe(0);
      on.expect(await ownersOf(on)).toEqual([undefined, 'you', undefined]);
    },
  ],
  [
    'their owner may take them again, with higher tokens',
    async (on) => {
      const first = await on.store.tryAcquire('b', 'me', LONG);
      const tokens = await oneStep(on.store)?.tryAcquireAll(KEYS, 'me', LONG);
      if (tokens === undefined) return;
      on.expect(typeof tokens !== 'number' && tokens[1]! > first!).toBe(true);
      const again = await oneStep(on.store)?.tryAcquireAll(KEYS, 'me', LONG);
      const rose = (token: bigint, i: number): boolean => token > (tokens as bigint[])[i]!;
      on.expect(typeof again !== 'number' && again?.every(rose)).toBe(true);
    },
  ],
  [
    'the token of a key is higher than all earlier ones, also of those that were taken alone',
    async (on) => {
      if (!oneStep(on.store)) return;
      let last = 0n;
      for (let i = 0; i < 5; i++) {
        const tokens = await oneStep(on.store)?.tryAcquireAll(KEYS, `owner ${i}`, LONG);
        const token = (tokens as bigint[])[1]!;
        on.expect(token > last).toBe(true);
        await oneStep(on.store)?.releaseAll(KEYS, `owner ${i}`);
        last = (await on.store.tryAcquire('b', 'alone', LONG))!;
        on.expect(last > token).toBe(true);
        await on.store.release('b', 'alone');
      }
    },
  ],
  [
    'they expire at their time',
    async (on) => {
      if (!oneStep(on.store)) return;
      await oneStep(on.store)?.tryAcquireAll(KEYS, 'me', on.ttl);
      await on.expire();
      on.expect(await ownersOf(on)).toEqual([undefined, undefined, undefined]);
      on.expect(typeof (await oneStep(on.store)?.tryAcquireAll(KEYS, 'you', on.ttl))).toBe('object');
    },
  ],
  [
    'they are renewed and released each only if its owner has it',
    async (on) => {
      if (!oneStep(on.store)) return;
      const asked = on.now();
      await oneStep(on.store)?.tryAcquireAll(['a', 'c'], 'me', on.ttl);
      await on.store.tryAcquire('b', 'you', on.ttl);
      const renewed = await oneStep(on.store)?.renewAll(KEYS, 'me', 100 * on.ttl);
      on.requireWithin(on.ttl, asked);
      on.expect(renewed).toEqual([true, false, true]);
      await on.expire();
      on.expect(await ownersOf(on)).toEqual(['me', undefined, 'me']);
      await on.store.tryAcquire('b', 'you', LONG);
      on.expect(await oneStep(on.store)?.releaseAll(KEYS, 'me')).toEqual([true, false, true]);
      on.expect(await oneStep(on.store)?.releaseAll(KEYS, 'me')).toEqual([false, false, false]);
      on.expect(await ownersOf(on)).toEqual([undefined, 'you', undefined]);
    },
  ],
  [
    'of many who ask for overlapping keys at once one in each key has all of its own',
    async (on) => {
      if (!oneStep(on.store)) return;
      const asked = Array.from({ length: 12 }, async (_, i) => {
        const keys = [KEYS[i % 3]!, KEYS[(i + 1) % 3]!];
        const answer = await oneStep(on.store, keys)?.tryAcquireAll(keys, `owner ${i}`, LONG);
        return { keys, owner: `owner ${i}`, granted: typeof answer === 'object' };
      });
      const granted = (await Promise.all(asked)).filter((one) => one.granted);
      // Any two of these lists of keys have a key in common.
      on.expect(granted.length).toBe(1);
      on.expect(await ownersOf(on, granted[0]!.keys)).toEqual([granted[0]!.owner, granted[0]!.owner]);
    },
  ],
  [
    'bad input is refused, and takes nothing',
    async (on) => {
      const store = oneStep(on.store);
      if (!store) return;
      const wrong: readonly [unknown, string][] = [
        ['a', 'ERR_INVALID_ARG_TYPE'],
        [undefined, 'ERR_INVALID_ARG_TYPE'],
        [['a', ''], 'ERR_OUT_OF_RANGE'],
        [['a', 5], 'ERR_INVALID_ARG_TYPE'],
      ];
      for (const [keys, code] of wrong) {
        on.expect(await codeOf(() => store.tryAcquireAll(keys as string[], 'me', LONG))).toBe(code);
        on.expect(await codeOf(() => store.renewAll(keys as string[], 'me', LONG))).toBe(code);
        on.expect(await codeOf(() => store.releaseAll(keys as string[], 'me'))).toBe(code);
      }
      on.expect(await codeOf(() => store.tryAcquireAll(['a', 'b'], '', LONG))).toBe('ERR_OUT_OF_RANGE');
      on.expect(await codeOf(() => store.tryAcquireAll(['a', 'b'], 'me', 0))).toBe('ERR_OUT_OF_RANGE');
      on.expect(await ownersOf(on)).toEqual([undefined, undefined, undefined]);
    },
  ],
];

/** The rules that a manager depends on when it leases several keys. */
export const severalManaged: readonly Sentence[] = [
  [
    'several keys are one lease: all or none, renewed and released together',
    async (on) => {
      const one = new LeaseManager({ store: on.store, ttl: LONG });
      const other = new LeaseManager({ store: on.store, ttl: LONG });
      const lease = await one.acquire(['b', 'a', 'b']);
      on.expect(lease.keys).toEqual(['a', 'b']);
      on.expect(await ownersOf(on)).toEqual([lease.holder, lease.holder, undefined]);
      const tokens = [];
      for (const key of lease.keys) tokens.push((await on.store.inspect(key))?.token);
      on.expect([...lease.tokens.values()]).toEqual(tokens);
      on.expect(await other.tryAcquire(['c', 'b'])).toBe(undefined);
      on.expect((await on.store.inspect('c'))?.owner).toBe(undefined);
      on.expect(await lease.renew()).toBe(true);
      on.expect(await lease.release()).toBe(true);
      on.expect(await ownersOf(on)).toEqual([undefined, undefined, undefined]);
      const next = await other.tryAcquire(['c', 'b']);
      on.expect([...(next?.tokens ?? [])][0]![1] > lease.tokens.get('b')!).toBe(true);
    },
  ],
  [
    'who waits for several keys has them after the release of the one that was missing',
    async (on) => {
      const one = new LeaseManager({ store: on.store, ttl: LONG });
      const other = new LeaseManager({ store: on.store, ttl: LONG, backoff: { initial: 5, max: 20 } });
      const held = await one.acquire('b');
      const waiting = other.acquire(KEYS, { timeout: 30_000 });
      await on.store.inspect('a');
      on.expect(await held.release()).toBe(true);
      const lease = await waiting;
      on.expect(lease.held).toBe(true);
      on.expect(lease.tokens.get('b')! > held.token).toBe(true);
      on.expect(await lease.release()).toBe(true);
    },
  ],
];
