import { isExact, keptOwner, type ExactLeaseStore, type LeaseStore } from '../lease/contract/lease-store.js';
import { LeaseManager } from '../lease/manager.js';
import { codeOf, type Scene, type Sentence } from './framework.js';
import { oneStep } from './several-keys.js';

/** A TTL that does not expire in these tests, in milliseconds. */
const LONG = 600_000;

/**
 * Returns the store if it is an `ExactLeaseStore`. Otherwise returns undefined,
 * because the rule does not apply.
 */
function exact(store: LeaseStore): ExactLeaseStore | undefined {
  return isExact(store) ? store : undefined;
}

async function grantTo(on: Scene, owner: string, ttl = LONG): Promise<bigint> {
  const token = await on.store.tryAcquire('key', owner, ttl);
  if (token === undefined) throw new Error(`${owner} was not granted the key`);
  return token;
}

/** Acquires each key for the owner, and returns the tokens. */
async function tokensOf(on: Scene, keys: readonly string[], owner: string): Promise<readonly bigint[]> {
  const tokens: bigint[] = [];
  for (const key of keys) tokens.push((await on.store.tryAcquire(key, owner, LONG))!);
  return tokens;
}

const CHANGES = ['renew', 'keep', 'release', 'renewAll', 'releaseAll'];

/** Returns the store for a manager, and a function that sends all earlier renewals and releases again. */
function replayed(store: LeaseStore): { store: LeaseStore; replay: () => Promise<void> } {
  const sent: (() => unknown)[] = [];
  const proxy = new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...of: unknown[]): unknown => {
        const call = (): unknown => Reflect.apply(value, target, of);
        if (CHANGES.includes(String(name))) sent.push(call);
        return call();
      };
    },
  });
  const replay = async (): Promise<void> => {
    for (const call of sent) await call();
  };
  return { store: proxy, replay };
}

/** The rules for requests that reach a store late, or twice. */
export const lateRequests: readonly Sentence[] = [
  [
    'a renewal shortens nothing',
    async (on) => {
      await grantTo(on, 'a', 100 * on.ttl);
      on.expect(await on.store.renew('key', 'a', on.ttl)).toBe(true);
      await on.expire();
      on.expect((await on.store.inspect('key'))?.owner).toBe('a');
      on.expect(await on.store.tryAcquire('key', 'b', on.ttl)).toBe(undefined);
    },
  ],
  [
    'another grant to the same owner does not shorten its lease',
    async (on) => {
      await grantTo(on, 'a', 100 * on.ttl);
      const again = await grantTo(on, 'a', on.ttl);
      const several = oneStep(on.store, ['b', 'c']);
      if (several) {
        await several.tryAcquireAll(['b', 'c'], 'a', 100 * on.ttl);
        on.expect(typeof (await several.tryAcquireAll(['c', 'b'], 'a', on.ttl))).toBe('object');
      }
      await on.expire();
      on.expect((await on.store.inspect('key'))?.token).toBe(again);
      for (const key of several ? ['key', 'b', 'c'] : ['key']) {
        on.expect(await on.store.tryAcquire(key, 'b', on.ttl)).toBe(undefined);
      }
    },
  ],
  [
    'another grant to the same owner lengthens its lease',
    async (on) => {
      const asked = on.now();
      await grantTo(on, 'a', on.ttl);
      const again = await on.store.tryAcquire('key', 'a', 100 * on.ttl);
      on.requireWithin(on.ttl, asked);
      on.expect(typeof again).toBe('bigint');
      await on.expire();
      on.expect((await on.store.inspect('key'))?.token).toBe(again);
    },
  ],
  [
    'a renewal revives nothing that was released, and extends nothing that another owner has',
    async (on) => {
      await grantTo(on, 'a');
      on.expect(await on.store.release('key', 'a')).toBe(true);
      on.expect(await on.store.renew('key', 'a', LONG)).toBe(false);
      on.expect(await on.store.inspect('key')).toBe(undefined);
      await grantTo(on, 'b', on.ttl);
      on.expect(await on.store.renew('key', 'a', LONG)).toBe(false);
      await on.expire();
      on.expect(await on.store.inspect('key')).toBe(undefined);
    },
  ],
  [
    'a release that comes twice frees nothing of the next owner',
    async (on) => {
      const token = await grantTo(on, 'a');
      const release = (): Promise<boolean> =>
        exact(on.store)?.release('key', 'a', token) ?? on.store.release('key', 'a');
      on.expect(await release()).toBe(true);
      on.expect(await release()).toBe(false);
      const next = await grantTo(on, 'b');
      on.expect(await release()).toBe(false);
      on.expect((await on.store.inspect('key'))?.token).toBe(next);
    },
  ],
  [
    'a release frees only the grant whose token it names',
    async (on) => {
      if (!exact(on.store)) return;
      const first = await grantTo(on, 'a');
      const second = await grantTo(on, 'a');
      on.expect(await exact(on.store)?.release('key', 'a', first)).toBe(false);
      on.expect((await on.store.inspect('key'))?.token).toBe(second);
      on.expect(await exact(on.store)?.release('key', 'b', second)).toBe(false);
      on.expect(await exact(on.store)?.release('key', 'a', second)).toBe(true);
      const third = await grantTo(on, 'a');
      for (const token of [first, second]) {
        on.expect(await exact(on.store)?.release('key', 'a', token)).toBe(false);
      }
      on.expect((await on.store.inspect('key'))?.token).toBe(third);
      on.expect(await exact(on.store)?.release('key', 'a')).toBe(true);
    },
  ],
  [
    'a grant that is kept to its end lasts for that time, shorter or longer',
    async (on) => {
      if (!exact(on.store)) return;
      const asked = on.now();
      const long = await grantTo(on, 'a', 100 * on.ttl);
      on.expect(await exact(on.store)?.keep('key', 'a', on.ttl, long)).toBe(true);
      const early = await on.store.tryAcquire('key', 'b', on.ttl);
      on.requireWithin(on.ttl, asked);
      on.expect(early).toBe(undefined);
      await on.expire();
      const again = on.now();
      const short = await grantTo(on, 'b', on.ttl);
      const kept = await exact(on.store)?.keep('key', 'b', 100 * on.ttl, short);
      on.requireWithin(on.ttl, again);
      on.expect(kept).toBe(true);
      await on.expire();
      on.expect((await on.store.inspect('key'))?.token).toBe(short);
    },
  ],
  [
    'after `keep`, no request of the owner changes anything until the key is free',
    async (on) => {
      if (!exact(on.store)) return;
      const token = await grantTo(on, 'a', 50 * on.ttl);
      const [other] = await tokensOf(on, ['other'], 'a');
      const asked = on.now();
      on.expect(await exact(on.store)?.keep('key', 'a', on.ttl, token)).toBe(true);
      const refused = [await on.store.tryAcquire('key', 'a', 100 * on.ttl)];
      const several = oneStep(on.store, ['free', 'key']);
      if (several) {
        on.expect(await several.tryAcquireAll(['free', 'key'], 'a', LONG)).toBe(1);
        on.expect(await several.renewAll(['other', 'key'], 'a', LONG)).toEqual([true, false]);
        on.expect(await several.releaseAll(['other', 'key'], 'a', [other!, token])).toEqual([true, false]);
      }
      const changed = [await on.store.renew('key', 'a', 100 * on.ttl), await on.store.release('key', 'a')];
      changed.push((await exact(on.store)?.release('key', 'a', token))!);
      const again = await exact(on.store)?.keep('key', 'a', 100 * on.ttl, token);
      const state = await on.store.inspect('key');
      on.requireWithin(on.ttl, asked);
      on.expect([refused, changed, again]).toEqual([[undefined], [false, false, false], true]);
      on.expect([state?.owner, state?.token]).toEqual([keptOwner('a'), token]);
      await on.expire();
      on.expect((await grantTo(on, 'a')) > token).toBe(true);
    },
  ],
  [
    'only the grant whose token is named is kept',
    async (on) => {
      if (!exact(on.store)) return;
      const first = await grantTo(on, 'a');
      const second = await grantTo(on, 'a', 100 * on.ttl);
      on.expect(await exact(on.store)?.keep('key', 'a', on.ttl, first)).toBe(false);
      on.expect(await exact(on.store)?.keep('key', 'b', on.ttl, second)).toBe(false);
      await on.expire();
      on.expect((await on.store.inspect('key'))?.token).toBe(second);
      on.expect(await exact(on.store)?.release('key', 'a', second)).toBe(true);
      on.expect(await exact(on.store)?.keep('key', 'a', LONG, second)).toBe(false);
      on.expect(await on.store.inspect('key')).toBe(undefined);
    },
  ],
  [
    'what is not a token is refused, and leaves the lease as it is',
    async (on) => {
      if (!exact(on.store)) return;
      const token = await grantTo(on, 'a');
      for (const wrong of [5, '5', null, {}] as unknown as bigint[]) {
        on.expect(await codeOf(() => exact(on.store)!.release('key', 'a', wrong))).toBe(
          'ERR_INVALID_ARG_TYPE',
        );
        on.expect(await codeOf(() => exact(on.store)!.keep('key', 'a', LONG, wrong))).toBe(
          'ERR_INVALID_ARG_TYPE',
        );
      }
      on.expect((await on.store.inspect('key'))?.token).toBe(token);
    },
  ],
  [
    'renewals of several keys in one step shorten none of them',
    async (on) => {
      if (!oneStep(on.store, ['a', 'b'])) return;
      await oneStep(on.store)?.tryAcquireAll(['a', 'b'], 'me', 100 * on.ttl);
      on.expect(await oneStep(on.store)?.renewAll(['a', 'b'], 'me', on.ttl)).toEqual([true, true]);
      await on.expire();
      for (const key of ['a', 'b']) on.expect((await on.store.inspect(key))?.owner).toBe('me');
    },
  ],
  [
    'releases of several keys in one step free only the grants whose tokens they name',
    async (on) => {
      if (!exact(on.store) || !oneStep(on.store, ['a', 'b'])) return;
      const first = await oneStep(on.store)?.tryAcquireAll(['a', 'b'], 'me', LONG);
      const second = await on.store.tryAcquire('b', 'me', LONG);
      const tokens = first as readonly bigint[];
      on.expect(await oneStep(on.store)?.releaseAll(['a', 'b'], 'me', tokens)).toEqual([true, false]);
      on.expect(await on.store.inspect('a')).toBe(undefined);
      on.expect((await on.store.inspect('b'))?.token).toBe(second);
      const code = await codeOf(() => oneStep(on.store)!.releaseAll(['a', 'b'], 'me', [second!]));
      on.expect(code).toBe('ERR_INVALID_ARG_TYPE');
    },
  ],
  [
    'of a lease that has ended they change nothing of the next one of that holder',
    async (on) => {
      if (!exact(on.store)) return;
      const { store, replay } = replayed(on.store);
      const manager = new LeaseManager({ store, ttl: LONG, holder: 'me', renew: false });
      for (const keys of [['key'], ['a', 'b']]) {
        const before = await manager.acquire(keys);
        const asked = on.now();
        const [renewed, released] = [await before.renew(2 * on.ttl), await before.release()];
        on.requireWithin(2 * on.ttl, asked);
        on.expect([renewed, released]).toEqual([true, true]);
        const lease = await manager.acquire(keys);
        await replay();
        await replay();
        on.expect(lease.held).toBe(true);
        await on.expire();
        for (const key of keys) {
          const state = await on.store.inspect(key);
          on.expect([state?.owner, state?.token]).toEqual(['me', lease.tokens.get(key)]);
        }
        on.expect(await lease.release()).toBe(true);
      }
    },
  ],
];
