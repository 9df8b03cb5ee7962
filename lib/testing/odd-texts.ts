import type { InfoLeaseState, InfoLeaseStore } from '../lease/contract/lease-store.js';
import type { Scene, Sentence } from './framework.js';
import { oneStep } from './several-keys.js';

/** A TTL that does not expire in these tests, in milliseconds. */
const LONG = 600_000;

/**
 * Strings that are operators, fields, parameters, patterns or quotes in some query language. If a store
 * builds a query from such a string, the database interprets the string.
 */
export const ODD = [
  '$owner',
  '$token',
  '$$NOW',
  '$$ROOT',
  '$$REMOVE',
  '$literal',
  '$1',
  '{}',
  '{"$ne":""}',
  '{a,"b"}',
  '[]',
  "'",
  "''",
  '"',
  '`',
  '\\',
  "\\'",
  "' OR '1'='1",
  "'; --",
  '%',
  '%s',
  '_',
  '*',
  '?',
  ':key',
  '@key',
  'a.b',
  '../a',
  '/',
  '__proto__',
  'constructor',
  'null',
  'NULL',
  'undefined',
  'true',
  '-1',
  '1e3',
  '\n',
  '\t',
  '\u2028',
];

/** The length of a key of 10 KB, in characters. */
const LONG_KEY = 10 * 1024;

/**
 * Returns digits that do not repeat and so cannot be compressed, because databases may
 * limit the size of index entries.
 */
function digits(length: number): string {
  let text = '';
  // A 31-bit Lehmer generator. The digits only have to look random.
  for (let state = 1; text.length < length; state = (state * 48_271) % 2_147_483_647) {
    text += state.toString(36);
  }
  return text.slice(0, length);
}

async function infoOf(on: Scene, key: string): Promise<string | undefined> {
  return ((await on.store.inspect(key)) as InfoLeaseState | undefined)?.info;
}

/** Keys, owners and infos must be treated as plain strings. */
export const oddTexts: readonly Sentence[] = [
  [
    'are keys like others, as which they never collide',
    async (on) => {
      for (const key of ODD) {
        on.expect(typeof (await on.store.tryAcquire(key, `owner of ${key}`, LONG))).toBe('bigint');
      }
      for (const key of ODD) {
        on.expect(await on.store.tryAcquire(key, 'other', LONG)).toBe(undefined);
        on.expect((await on.store.inspect(key))?.owner).toBe(`owner of ${key}`);
        on.expect(await on.store.renew(key, `owner of ${key}`, LONG)).toBe(true);
      }
      for (const key of ODD) on.expect(await on.store.release(key, `owner of ${key}`)).toBe(true);
    },
  ],
  [
    'are owners like others, each of whom is shown as he is, and is the only one to renew and release',
    async (on) => {
      for (const owner of ODD) {
        on.expect(typeof (await on.store.tryAcquire('key', owner, LONG))).toBe('bigint');
        on.expect((await on.store.inspect('key'))?.owner).toBe(owner);
        on.expect(await on.store.tryAcquire('key', 'other', LONG)).toBe(undefined);
        on.expect(await on.store.renew('key', owner, LONG)).toBe(true);
        on.expect(typeof (await on.store.tryAcquire('key', owner, LONG))).toBe('bigint');
        on.expect((await on.store.inspect('key'))?.owner).toBe(owner);
        on.expect(await on.store.release('key', owner)).toBe(true);
        on.expect(await on.store.inspect('key')).toBe(undefined);
      }
    },
  ],
  [
    'do not let an owner at the lease of another',
    async (on) => {
      for (const holder of ['a', '$owner', '%']) {
        const token = await on.store.tryAcquire('key', holder, LONG);
        for (const stranger of ODD) {
          if (stranger === holder) continue;
          on.expect(await on.store.tryAcquire('key', stranger, LONG)).toBe(undefined);
          on.expect(await on.store.renew('key', stranger, 1)).toBe(false);
          on.expect(await on.store.release('key', stranger)).toBe(false);
        }
        const state = await on.store.inspect('key');
        on.expect([state?.owner, state?.token]).toEqual([holder, token]);
        on.expect(await on.store.release('key', holder)).toBe(true);
      }
    },
  ],
  [
    'are infos like others',
    async (on) => {
      if (!on.keepsInfo) return;
      for (const info of ODD) {
        const store: InfoLeaseStore = on.store;
        await store.tryAcquire('key', 'a', LONG, info);
        on.expect(await infoOf(on, 'key')).toBe(info);
      }
      for (const info of ODD) {
        const store: InfoLeaseStore = on.store;
        on.expect(await store.renew('key', 'a', LONG, info)).toBe(true);
        on.expect(await infoOf(on, 'key')).toBe(info);
      }
    },
  ],
  [
    'are taken, renewed and released together like others',
    async (on) => {
      if (!oneStep(on.store, ODD)) return;
      const tokens = await oneStep(on.store, ODD)?.tryAcquireAll(ODD, '$owner', LONG);
      on.expect(Array.isArray(tokens) && tokens.length).toBe(ODD.length);
      on.expect(await oneStep(on.store, ODD)?.tryAcquireAll(ODD, '$$ROOT', LONG)).toBe(0);
      const all = ODD.map(() => true);
      on.expect(await oneStep(on.store, ODD)?.renewAll(ODD, '$owner', LONG)).toEqual(all);
      for (const key of ODD) on.expect((await on.store.inspect(key))?.owner).toBe('$owner');
      on.expect(await oneStep(on.store, ODD)?.releaseAll(ODD, '$owner')).toEqual(all);
    },
  ],
  [
    'are no different if they are long: keys of 10 KB that differ at their beginning, or at their end',
    async (on) => {
      const middle = digits(LONG_KEY - 1);
      const keys = [`${middle}a`, `${middle}b`, `a${middle}`, `b${middle}`, middle];
      for (const key of keys) {
        on.expect(typeof (await on.store.tryAcquire(key, `owner of ${key.length}`, LONG))).toBe('bigint');
      }
      for (const key of keys) {
        on.expect((await on.store.inspect(key))?.owner).toBe(`owner of ${key.length}`);
        on.expect(await on.store.tryAcquire(key, 'other', LONG)).toBe(undefined);
        on.expect(await on.store.renew(key, `owner of ${key.length}`, LONG)).toBe(true);
        on.expect(await on.store.release(key, `owner of ${key.length}`)).toBe(true);
        on.expect(await on.store.inspect(key)).toBe(undefined);
      }
      const tokens = await oneStep(on.store, keys)?.tryAcquireAll(keys, 'me', LONG);
      if (tokens !== undefined) on.expect(Array.isArray(tokens) && tokens.length).toBe(keys.length);
    },
  ],
];
