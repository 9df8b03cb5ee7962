import { canList, type ListedLease, type ListLeasesOptions } from '../lease/contract/listing.js';
import type { InfoLeaseStore } from '../lease/contract/lease-store.js';
import { codeOf, type Scene, type Sentence } from './framework.js';
import { ODD } from './odd-texts.js';

/** A TTL that does not expire in these tests, in milliseconds. */
const LONG = 600_000;

/** The listed leases. Undefined if the next client of the store cannot list. */
function listed(on: Scene, options?: ListLeasesOptions): Promise<readonly ListedLease[]> | undefined {
  const { store } = on;
  return canList(store) ? store.list(options) : undefined;
}

/** The listed keys. The store must be able to list. */
async function keysOf(on: Scene, options?: ListLeasesOptions): Promise<string[]> {
  return (await listed(on, options)!).map(({ key }) => key);
}

async function hold(on: Scene, keys: readonly string[]): Promise<void> {
  for (const key of keys) on.expect(typeof (await on.store.tryAcquire(key, 'a', LONG))).toBe('bigint');
}

/** The rules for stores that can list, which is optional. */
export const listing: readonly Sentence[] = [
  [
    'shows the leases that are held, in the order of their keys, with owner, token and remaining time',
    async (on) => {
      if (!canList(on.store)) return;
      on.expect(await listed(on)).toEqual([]);
      const tokens: unknown[] = [];
      for (const [key, owner] of [
        ['b', 'one'],
        ['a', 'two'],
        ['a#slot1', 'three'],
      ] as const) {
        tokens.push(await on.store.tryAcquire(key, owner, LONG));
      }
      const leases = (await listed(on))!;
      on.expect(leases.map(({ key, owner, token }) => [key, owner, token])).toEqual([
        ['a', 'two', tokens[1]],
        ['a#slot1', 'three', tokens[2]],
        ['b', 'one', tokens[0]],
      ]);
      for (const { remaining } of leases) {
        on.expect(remaining > LONG - 60_000 && remaining <= LONG + on.late).toBe(true);
      }
      on.expect(leases.some((lease) => 'info' in lease)).toBe(false);
    },
  ],
  [
    'shows no lease that was released or has expired',
    async (on) => {
      if (!canList(on.store)) return;
      await on.store.tryAcquire('expired', 'a', on.ttl);
      await hold(on, ['held', 'released']);
      on.expect(await on.store.release('released', 'a')).toBe(true);
      await on.expire();
      on.expect(await keysOf(on)).toEqual(['held']);
    },
  ],
  [
    'shows infos',
    async (on) => {
      if (!canList(on.store) || !on.keepsInfo) return;
      const store: InfoLeaseStore = on.store;
      await store.tryAcquire('a', 'me', LONG, 'half "done" \n\ud800');
      await store.tryAcquire('b', 'me', LONG);
      on.expect((await listed(on))!.map(({ info }) => info)).toEqual(['half "done" \n\ud800', undefined]);
    },
  ],
  [
    'shows only keys that start with the prefix, in which no character is a wildcard',
    async (on) => {
      if (!canList(on.store)) return;
      const keys = [
        'job:a',
        'job:b',
        'job_c',
        'job',
        'jo',
        'JOB:d',
        'a%b',
        'a_b',
        'a*b',
        'a\\b',
        'a[b',
        'axb',
      ];
      await hold(on, keys);
      on.expect(await keysOf(on, { prefix: 'job:' })).toEqual(['job:a', 'job:b']);
      on.expect(await keysOf(on, { prefix: 'job' })).toEqual(['job', 'job:a', 'job:b', 'job_c']);
      on.expect(await keysOf(on, { prefix: 'job:a' })).toEqual(['job:a']);
      on.expect(await keysOf(on, { prefix: 'none' })).toEqual([]);
      on.expect((await keysOf(on, { prefix: '' })).length).toBe(keys.length);
      for (const wildcard of ['%', '_', '*', '\\', '[']) {
        on.expect(await keysOf(on, { prefix: `a${wildcard}` })).toEqual([`a${wildcard}b`]);
        on.expect(await keysOf(on, { prefix: wildcard })).toEqual([]);
      }
    },
  ],
  [
    'shows texts that mean something to a database like others',
    async (on) => {
      if (!canList(on.store)) return;
      const odd = [...ODD, 'ä', '€', '\uffff', '😀', '\u{10ffff}', '\0', 'key\0', '\ud800', 'key\ud800', ' '];
      await hold(on, odd);
      on.expect((await keysOf(on)).sort()).toEqual([...odd].sort());
      for (const prefix of odd) {
        const expected = odd.filter((key) => key.startsWith(prefix)).sort();
        on.expect((await keysOf(on, { prefix })).sort()).toEqual(expected);
      }
      const texts = odd.filter((key) => !/[\0\ud800\u{10ffff}]/u.test(key));
      const inOrder = [...texts].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
      on.expect((await keysOf(on)).filter((key) => texts.includes(key))).toEqual(inOrder);
    },
  ],
  [
    'shows the first leases if there are more than the limit',
    async (on) => {
      if (!canList(on.store)) return;
      await hold(on, ['e', 'c', 'a', 'd', 'b', 'bb']);
      on.expect(await keysOf(on, { limit: 2 })).toEqual(['a', 'b']);
      on.expect(await keysOf(on, { limit: 1, prefix: 'b' })).toEqual(['b']);
      on.expect(await keysOf(on, { limit: 6 })).toEqual(['a', 'b', 'bb', 'c', 'd', 'e']);
      on.expect(await on.store.release('a', 'a')).toBe(true);
      on.expect(await keysOf(on, { limit: 2 })).toEqual(['b', 'bb']);
    },
  ],
  [
    'names keys so that others can inspect and release them, also long ones',
    async (on) => {
      if (!canList(on.store)) return;
      await hold(on, ['x'.repeat(5000), 'short']);
      for (const { key, owner, token } of (await listed(on))!) {
        const state = await on.store.inspect(key);
        on.expect([state?.owner, state?.token]).toEqual([owner, token]);
        on.expect(await on.store.release(key, owner)).toBe(true);
      }
      on.expect(await keysOf(on)).toEqual([]);
    },
  ],
  [
    'refuses a prefix that is not a string, and a limit that is not an integer from 1 to 10,000',
    async (on) => {
      const { store } = on;
      if (!canList(store)) return;
      for (const [options, code] of [
        [{ prefix: 5 }, 'ERR_INVALID_ARG_TYPE'],
        [{ limit: '5' }, 'ERR_INVALID_ARG_TYPE'],
        [{ limit: 0 }, 'ERR_OUT_OF_RANGE'],
        [{ limit: 1.5 }, 'ERR_OUT_OF_RANGE'],
        [{ limit: 10_001 }, 'ERR_OUT_OF_RANGE'],
      ] as const) {
        on.expect(await codeOf(() => store.list(options as ListLeasesOptions))).toBe(code);
      }
    },
  ],
];
