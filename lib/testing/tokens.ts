import type { LeaseStore } from '../lease/contract/lease-store.js';
import type { Scene, Sentence } from './framework.js';

const LONG = 600_000;

async function tokenOf(store: LeaseStore, key: string, owner: string, ttl: number): Promise<bigint> {
  const token = await store.tryAcquire(key, owner, ttl);
  if (typeof token !== 'bigint') throw new Error(`${owner} was not granted ${key}: ${String(token)}`);
  return token;
}

function expectToRise(on: Scene, tokens: readonly bigint[]): void {
  on.expect(tokens.every((token, i) => i === 0 || token > tokens[i - 1]!)).toBe(true);
}

export const tokens: readonly Sentence[] = [
  [
    'are bigints of at most 64 bits',
    async (on) => {
      const token = await tokenOf(on.store, 'key', 'a', LONG);
      on.expect(token > 0n && token < 2n ** 64n).toBe(true);
    },
  ],
  [
    'rise from holder to holder across release, when the key is forgotten meanwhile',
    async (on) => {
      const given: bigint[] = [];
      for (let i = 0; i < 10; i++) {
        given.push(await tokenOf(on.store, 'key', `owner ${i}`, LONG));
        on.expect(await on.store.release('key', `owner ${i}`)).toBe(true);
      }
      expectToRise(on, given);
    },
  ],
  [
    'rise across expiry',
    async (on) => {
      const first = await tokenOf(on.store, 'key', 'a', on.ttl);
      await on.expire();
      const second = await tokenOf(on.store, 'key', 'b', on.ttl);
      await on.expire();
      expectToRise(on, [first, second, await tokenOf(on.store, 'key', 'a', on.ttl)]);
    },
  ],
  [
    'rise across expiry when what has expired was purged by the use of other keys',
    async (on) => {
      const first = await tokenOf(on.store, 'key', 'a', on.ttl);
      await on.expire();
      for (let i = 0; i < 100; i++) {
        await on.store.tryAcquire(`other ${i}`, 'c', on.ttl);
        await on.store.release(`other ${i}`, 'c');
      }
      expectToRise(on, [first, await tokenOf(on.store, 'key', 'b', on.ttl)]);
    },
  ],
  [
    'are new when the same owner takes its live lease again',
    async (on) => {
      const given = [
        await tokenOf(on.store, 'key', 'a', LONG),
        await tokenOf(on.store, 'key', 'a', LONG),
        await tokenOf(on.store, 'key', 'a', LONG),
      ];
      expectToRise(on, given);
      on.expect((await on.store.inspect('key'))?.token).toBe(given[2]);
    },
  ],
  [
    'stay the same when the lease is renewed',
    async (on) => {
      const token = await tokenOf(on.store, 'key', 'a', LONG);
      on.expect(await on.store.renew('key', 'a', LONG)).toBe(true);
      on.expect((await on.store.inspect('key'))?.token).toBe(token);
    },
  ],
  [
    'of grants that were asked for at once are all different, and the last inspected is the greatest',
    async (on) => {
      const asked = Array.from({ length: 20 }, () => tokenOf(on.store, 'key', 'a', LONG));
      const given = await Promise.all(asked);
      on.expect(new Set(given).size).toBe(given.length);
      const greatest = given.reduce((most, token) => (token > most ? token : most));
      on.expect((await on.store.inspect('key'))?.token).toBe(greatest);
    },
  ],
];
