import type { InfoLeaseState, InfoLeaseStore } from '../lease/contract/lease-store.js';
import { LeaseManager } from '../lease/manager.js';
import { codeOf, type Scene, type Sentence } from './framework.js';

/** A TTL that does not expire in these tests, in milliseconds. */
const LONG = 600_000;
/** A text with characters of every length in UTF-8, and with characters that need escaping. */
const TEXT = 'host "a" \\ pid 7: 50 % of ä, €, 😀\n\0\ud800 done';

/** The next client of the store. */
const clientOf = (on: Scene): InfoLeaseStore => on.store;

async function infoOf(on: Scene, key = 'key'): Promise<string | undefined> {
  return ((await on.store.inspect(key)) as InfoLeaseState | undefined)?.info;
}

/** The rules for stores that keep infos. Other stores ignore infos. */
export const infos: readonly Sentence[] = [
  [
    'is shown by inspect, as it was given',
    async (on) => {
      if (!on.keepsInfo) return;
      await clientOf(on).tryAcquire('key', 'a', LONG, TEXT);
      on.expect(await infoOf(on)).toBe(TEXT);
      const state = await on.store.inspect('key');
      on.expect(state?.owner).toBe('a');
      on.expect(await clientOf(on).tryAcquire('key', 'b', LONG, 'other')).toBe(undefined);
      on.expect(await infoOf(on)).toBe(TEXT);
      await on.store.tryAcquire('none', 'a', LONG);
      on.expect(await infoOf(on, 'none')).toBe(undefined);
    },
  ],
  [
    'stays when the lease is renewed without one, and is replaced by a new one, or removed by an empty one',
    async (on) => {
      if (!on.keepsInfo) return;
      await clientOf(on).tryAcquire('key', 'a', LONG, 'started');
      on.expect(await on.store.renew('key', 'a', LONG)).toBe(true);
      on.expect(await infoOf(on)).toBe('started');
      on.expect(await clientOf(on).renew('key', 'b', LONG, 'foreign')).toBe(false);
      on.expect(await infoOf(on)).toBe('started');
      on.expect(await clientOf(on).renew('key', 'a', LONG, TEXT)).toBe(true);
      on.expect(await infoOf(on)).toBe(TEXT);
      on.expect(await clientOf(on).renew('key', 'a', LONG, '')).toBe(true);
      on.expect(await infoOf(on)).toBe(undefined);
      on.expect(await on.store.release('key', 'a')).toBe(true);
    },
  ],
  [
    'goes with its lease, by release, by expiry, and when the same owner takes it again',
    async (on) => {
      if (!on.keepsInfo) return;
      await clientOf(on).tryAcquire('key', 'a', LONG, 'first');
      on.expect(await on.store.release('key', 'a')).toBe(true);
      await on.store.tryAcquire('key', 'b', LONG);
      on.expect(await infoOf(on)).toBe(undefined);
      await clientOf(on).tryAcquire('key', 'b', LONG, 'second');
      on.expect(await infoOf(on)).toBe('second');
      await on.store.tryAcquire('key', 'b', LONG);
      on.expect(await infoOf(on)).toBe(undefined);
      await on.store.release('key', 'b');
      await clientOf(on).tryAcquire('key', 'b', on.ttl, 'third');
      await on.expire();
      await on.store.tryAcquire('key', 'c', LONG);
      on.expect(await infoOf(on)).toBe(undefined);
    },
  ],
  [
    'does not confuse owners: a lease with an info belongs to its owner only',
    async (on) => {
      if (!on.keepsInfo) return;
      await clientOf(on).tryAcquire('key', 'a', LONG, 'b');
      for (const stranger of ['a\0b', 'ab', 'a b', 'a\0', 'b']) {
        on.expect(await on.store.renew('key', stranger, LONG)).toBe(false);
        on.expect(await on.store.release('key', stranger)).toBe(false);
        on.expect(await on.store.tryAcquire('key', stranger, LONG)).toBe(undefined);
      }
      on.expect(await on.store.release('key', 'a')).toBe(true);
    },
  ],
  [
    'of more than 1024 bytes, or of another type, is refused, and nothing changes',
    async (on) => {
      if (!on.keepsInfo) return;
      const most = 'x'.repeat(1022) + 'ä';
      await clientOf(on).tryAcquire('key', 'a', LONG, most);
      on.expect(await infoOf(on)).toBe(most);
      for (const [info, code] of [
        [`${most}x`, 'ERR_OUT_OF_RANGE'],
        [5, 'ERR_INVALID_ARG_TYPE'],
        [null, 'ERR_INVALID_ARG_TYPE'],
      ] as const) {
        on.expect(await codeOf(() => clientOf(on).tryAcquire('free', 'a', LONG, info as string))).toBe(code);
        on.expect(await codeOf(() => clientOf(on).renew('key', 'a', LONG, info as string))).toBe(code);
      }
      on.expect(await infoOf(on)).toBe(most);
      on.expect(await on.store.inspect('free')).toBe(undefined);
    },
  ],
  [
    'of a manager is given with every lease, and a lease can replace it',
    async (on) => {
      if (!on.keepsInfo) return;
      const manager = new LeaseManager({ store: on.store, ttl: LONG, info: 'host a' });
      const lease = await manager.acquire('key');
      on.expect(await infoOf(on)).toBe('host a');
      on.expect(await lease.setInfo('half done')).toBe(true);
      on.expect(await lease.renew()).toBe(true);
      on.expect(await infoOf(on)).toBe('half done');
      const several = await manager.acquire(['one', 'two'], { info: 'both' });
      on.expect([await infoOf(on, 'one'), await infoOf(on, 'two')]).toEqual(['both', 'both']);
      on.expect(await several.setInfo(TEXT)).toBe(true);
      on.expect([await infoOf(on, 'one'), await infoOf(on, 'two')]).toEqual([TEXT, TEXT]);
      on.expect(await several.release()).toBe(true);
      on.expect(await lease.release()).toBe(true);
      on.expect(await lease.setInfo('late')).toBe(false);
      on.expect(await on.store.inspect('key')).toBe(undefined);
    },
  ],
];
