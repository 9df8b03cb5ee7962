import {
  reportsReleases,
  type AbandonmentLeaseStore,
  type GrantDetails,
  type InfoLeaseStore,
} from '../lease/contract/lease-store.js';
import { canList } from '../lease/contract/listing.js';
import { canShare, READERS, type SharedGrant, type SharedLeaseStore } from '../lease/contract/shared.js';
import { revokeLease } from '../lease/revoke.js';
import { codeOf, type Scene, type Sentence } from './framework.js';
import { ODD } from './odd-texts.js';

/** A TTL that does not expire in these tests, in milliseconds. */
export const LONG = 600_000;
/** Milliseconds after which a waiter polls. */
const POLL = 1000;
const TYPE = 'ERR_INVALID_ARG_TYPE';
const RANGE = 'ERR_OUT_OF_RANGE';
const NAMES = ['r1', 'r2', 'r3', 'r4', 'r5', 'r6', 'r7', 'r8'];

/** The next client of the store. */
export const storeOf = (on: Scene): SharedLeaseStore => on.store as SharedLeaseStore;

/** Defines a rule that is checked only for stores that can grant keys in shared mode. */
export function sharingSentence(name: string, test: (on: Scene) => Promise<void>): Sentence {
  return [name, async (on) => (canShare(on.store) ? test(on) : undefined)];
}

export function ask(on: Scene, reader: string, ttl = LONG, key = 'key'): Promise<SharedGrant | undefined> {
  return storeOf(on).tryAcquireShared(key, reader, ttl);
}

/** Asks for the key in shared mode. Fails unless the key is granted. */
export async function join(on: Scene, reader: string, ttl = LONG, key = 'key'): Promise<SharedGrant> {
  const grant = await ask(on, reader, ttl, key);
  if (grant === undefined) throw new Error(`${reader} was not granted ${key}`);
  return grant;
}

/** Removes the reader from the key's group. True if the reader was in the group. */
export function leave(on: Scene, reader: string, key = 'key'): Promise<boolean> {
  return storeOf(on).releaseShared(key, reader);
}

export async function write(on: Scene, owner = 'writer', ttl = LONG): Promise<bigint> {
  const token = await on.store.tryAcquire('key', owner, ttl);
  if (token === undefined) throw new Error(`${owner} was not granted the key`);
  return token;
}

export async function expectFree(on: Scene, key = 'key'): Promise<void> {
  on.expect(await on.store.inspect(key)).toBe(undefined);
}

export async function expectWriterRefused(on: Scene): Promise<void> {
  on.expect(await on.store.tryAcquire('key', 'writer', LONG)).toBe(undefined);
}

async function abandonedOf(on: Scene, reader: string): Promise<boolean | undefined> {
  const details: GrantDetails = {};
  const grant = await storeOf(on).tryAcquireShared('key', reader, LONG, details);
  on.expect([typeof grant?.token, details.abandoned?.length]).toEqual(['bigint', 1]);
  return details.abandoned?.[0];
}

/** Waits for a notification, which a store may miss, or until a waiter would poll. */
async function wokenOrPolling(woken: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const polling = new Promise<void>((resolve) => (timer = setTimeout(resolve, POLL)));
  await Promise.race([woken, polling]);
  clearTimeout(timer);
}

/** The rules for stores that can grant keys in shared mode, which is optional. */
export const shared: readonly Sentence[] = [
  sharingSentence('readers hold a key together, as one group with one token', async (on) => {
    const first = await join(on, 'r1');
    on.expect(first.group.startsWith(READERS)).toBe(true);
    on.expect(first.token > 0n && first.token < 2n ** 63n).toBe(true);
    for (const reader of ['r2', 'r3']) on.expect(await join(on, reader)).toEqual(first);
    const state = await on.store.inspect('key');
    on.expect([state?.owner, state?.token]).toEqual([first.group, first.token]);
    on.expect(state !== undefined && 'info' in state).toBe(false);
    on.expect((state?.remaining ?? 0) > LONG - 60_000).toBe(true);
    await expectFree(on, 'other');
  }),
  sharingSentence('a list shows the group as one lease, without its readers', async (on) => {
    const first = await join(on, 'r1');
    await join(on, 'r2');
    const { store } = on;
    if (!canList(store)) return;
    const listed = await store.list();
    on.expect(listed.map(({ key, owner, token }) => [key, owner, token])).toEqual([
      ['key', first.group, first.token],
    ]);
    on.expect(listed.some((lease) => 'info' in lease)).toBe(false);
  }),
  sharingSentence('readers exclude other owners, and are excluded by them', async (on) => {
    await join(on, 'r1');
    await join(on, 'r2');
    await expectWriterRefused(on);
    on.expect(await on.store.renew('key', 'writer', LONG)).toBe(false);
    on.expect(await on.store.release('key', 'writer')).toBe(false);
    for (const reader of ['r1', 'r2']) on.expect(await leave(on, reader)).toBe(true);
    const token = await write(on);
    on.expect(await ask(on, 'r3')).toBe(undefined);
    on.expect(await leave(on, 'r3')).toBe(false);
    on.expect(await leave(on, 'writer')).toBe(false);
    const state = await on.store.inspect('key');
    on.expect([state?.owner, state?.token]).toEqual(['writer', token]);
  }),
  sharingSentence(
    'the token of a group lies between those of the writers before and after it',
    async (on) => {
      let last = await write(on);
      await on.store.release('key', 'writer');
      for (let i = 0; i < 4; i++) {
        const { token, group } = await join(on, `a${i}`);
        on.expect(token > last).toBe(true);
        on.expect(await join(on, `b${i}`)).toEqual({ token, group });
        for (const reader of [`a${i}`, `b${i}`]) on.expect(await leave(on, reader)).toBe(true);
        last = await write(on);
        on.expect(last > token).toBe(true);
        on.expect(await on.store.release('key', 'writer')).toBe(true);
      }
    },
  ),
  sharingSentence('two groups of a key have different names and tokens', async (on) => {
    const first = await join(on, 'r1');
    on.expect(await leave(on, 'r1')).toBe(true);
    const second = await join(on, 'r2');
    on.expect(second.group === first.group).toBe(false);
    on.expect(second.token > first.token).toBe(true);
    on.expect(await on.store.renew('key', first.group, LONG)).toBe(false);
  }),
  sharingSentence('the last reader to leave frees the key, and the others do not', async (on) => {
    const readers = ['r1', 'r2', 'r3'];
    for (const reader of readers) await join(on, reader);
    // The reader that formed the group leaves first.
    for (const reader of readers) {
      await expectWriterRefused(on);
      on.expect(await leave(on, reader)).toBe(true);
    }
    await expectFree(on);
    await write(on);
  }),
  sharingSentence(
    'a reader that leaves again changes nothing for the others, or for a later group',
    async (on) => {
      await join(on, 'r1');
      await join(on, 'r2');
      on.expect(await leave(on, 'r1')).toBe(true);
      on.expect(await leave(on, 'r1')).toBe(false);
      await expectWriterRefused(on);
      on.expect(await leave(on, 'r2')).toBe(true);
      on.expect(await leave(on, 'r2')).toBe(false);
      await expectFree(on);
      const later = await join(on, 'r3');
      for (const reader of ['r1', 'r2']) on.expect(await leave(on, reader)).toBe(false);
      on.expect((await on.store.inspect('key'))?.token).toBe(later.token);
      await expectWriterRefused(on);
    },
  ),
  sharingSentence('a reader whose id is part of another id is another reader', async (on) => {
    const ids = ['a', 'aa', 'a:a', 'A', 'a-a', 'a_a', 'aXa', 'a:a:a'];
    const grant = await join(on, 'a:a:a:a');
    for (const id of ids) on.expect(await leave(on, id)).toBe(false);
    for (const id of ids) on.expect(await join(on, id)).toEqual(grant);
    for (const id of ids) {
      on.expect(await leave(on, id)).toBe(true);
      on.expect(await leave(on, id)).toBe(false);
    }
    await expectWriterRefused(on);
    on.expect(await leave(on, 'a:a:a:a')).toBe(true);
    await expectFree(on);
  }),
  sharingSentence('a reader that asks again is in the group once', async (on) => {
    const grant = await join(on, 'r1');
    for (let i = 0; i < 2; i++) on.expect(await join(on, 'r1')).toEqual(grant);
    on.expect(await join(on, 'r2')).toEqual(grant);
    on.expect(await join(on, 'r1')).toEqual(grant);
    on.expect(await leave(on, 'r1')).toBe(true);
    await expectWriterRefused(on);
    on.expect(await leave(on, 'r2')).toBe(true);
    await expectFree(on);
  }),
  sharingSentence('of many readers that ask at once all are in one group, and all leave it', async (on) => {
    const grants = await Promise.all(NAMES.map((reader) => join(on, reader)));
    for (const grant of grants) on.expect(grant).toEqual(grants[0]);
    await expectWriterRefused(on);
    const left = await Promise.all(NAMES.map((reader) => leave(on, reader)));
    on.expect(left).toEqual(NAMES.map(() => true));
    await expectFree(on);
  }),
  sharingSentence(
    'of readers and writers that ask at once either the readers have it, or one writer',
    async (on) => {
      for (let round = 0; round < 5; round++) {
        const asked = NAMES.map((name) => {
          const writer = (): Promise<bigint | undefined> => on.store.tryAcquire('key', `w ${name}`, LONG);
          const id = `${name}:${round}`;
          return { writer: writer(), reader: ask(on, id), name, id };
        });
        const writers: string[] = [];
        const readers: string[] = [];
        for (const { writer, reader, name, id } of asked) {
          if ((await writer) !== undefined) writers.push(`w ${name}`);
          if ((await reader) !== undefined) readers.push(id);
        }
        on.expect([writers.length, readers.length]).toEqual(writers.length > 0 ? [1, 0] : [0, NAMES.length]);
        for (const writer of writers) on.expect(await on.store.release('key', writer)).toBe(true);
        for (const reader of readers) on.expect(await leave(on, reader)).toBe(true);
        await expectFree(on);
      }
    },
  ),
  sharingSentence('a reader that joins extends the lease of the group', async (on) => {
    const asked = on.now();
    const first = await join(on, 'r1', on.ttl);
    const second = await ask(on, 'r2', 100 * on.ttl);
    on.requireWithin(on.ttl, asked);
    on.expect(second).toEqual(first);
    await on.expire();
    on.expect((await on.store.inspect('key'))?.token).toBe(first.token);
    await expectWriterRefused(on);
  }),
  sharingSentence('a reader that joins, or asks again, does not shorten it', async (on) => {
    const first = await join(on, 'r1', 100 * on.ttl);
    on.expect(await join(on, 'r2', on.ttl)).toEqual(first);
    on.expect(await join(on, 'r1', on.ttl)).toEqual(first);
    on.expect(await on.store.renew('key', first.group, on.ttl)).toBe(true);
    await on.expire();
    on.expect((await on.store.inspect('key'))?.token).toBe(first.token);
    on.expect(await leave(on, 'r1')).toBe(true);
    await expectWriterRefused(on);
    on.expect(await leave(on, 'r2')).toBe(true);
    await expectFree(on);
  }),
  sharingSentence('a renewal by the group extends it, and keeps its readers', async (on) => {
    const asked = on.now();
    const { group, token } = await join(on, 'r1', on.ttl);
    const joined = await ask(on, 'r2', on.ttl);
    const renewed = await on.store.renew('key', group, 100 * on.ttl);
    on.requireWithin(on.ttl, asked);
    on.expect([joined?.token, renewed]).toEqual([token, true]);
    await on.expire();
    on.expect((await on.store.inspect('key'))?.token).toBe(token);
    on.expect(await leave(on, 'r1')).toBe(true);
    on.expect(await on.store.renew('key', group, LONG)).toBe(true);
    await expectWriterRefused(on);
    on.expect(await leave(on, 'r2')).toBe(true);
    on.expect(await on.store.renew('key', group, LONG)).toBe(false);
    await expectFree(on);
  }),
  sharingSentence(
    'a group whose lease expires loses the key, and its readers change nothing any more',
    async (on) => {
      const first = await join(on, 'r1', on.ttl);
      await ask(on, 'r2', on.ttl);
      await on.expire();
      await expectFree(on);
      on.expect(await on.store.renew('key', first.group, LONG)).toBe(false);
      on.expect(await leave(on, 'r1')).toBe(false);
      const token = await write(on, 'writer', LONG);
      on.expect(token > first.token).toBe(true);
      for (const reader of ['r1', 'r2']) on.expect(await leave(on, reader)).toBe(false);
      on.expect(await on.store.renew('key', first.group, LONG)).toBe(false);
      on.expect((await on.store.inspect('key'))?.token).toBe(token);
    },
  ),
  sharingSentence(
    'a reader that asks after the expiry forms a new group, without the readers of the old one',
    async (on) => {
      const first = await join(on, 'r1', on.ttl);
      await ask(on, 'r2', on.ttl);
      await on.expire();
      const second = await join(on, 'r3');
      on.expect([second.token > first.token, second.group === first.group]).toEqual([true, false]);
      for (const reader of ['r1', 'r2']) on.expect(await leave(on, reader)).toBe(false);
      await expectWriterRefused(on);
      on.expect(await leave(on, 'r3')).toBe(true);
      await expectFree(on);
    },
  ),
  sharingSentence('a reader takes over the expired lease of a writer', async (on) => {
    const token = await write(on, 'writer', on.ttl);
    await on.expire();
    const grant = await join(on, 'r1');
    on.expect(grant.token > token).toBe(true);
    on.expect(await on.store.renew('key', 'writer', LONG)).toBe(false);
    await expectWriterRefused(on);
  }),
  sharingSentence(
    'a group that is revoked cannot renew, and its readers do not disturb the next holder',
    async (on) => {
      const first = await join(on, 'r1');
      await join(on, 'r2');
      on.expect(await revokeLease(on.store, 'key')).toBe(true);
      await expectFree(on);
      on.expect(await on.store.renew('key', first.group, LONG)).toBe(false);
      const second = await join(on, 'r3');
      on.expect(second.token > first.token).toBe(true);
      on.expect(await on.store.renew('key', first.group, LONG)).toBe(false);
      for (const reader of ['r1', 'r2']) on.expect(await leave(on, reader)).toBe(false);
      on.expect(await on.store.renew('key', second.group, LONG)).toBe(true);
      on.expect(await leave(on, 'r3')).toBe(true);
      await expectFree(on);
    },
  ),
  sharingSentence('the release of the last reader wakes waiters', async (on) => {
    await join(on, 'r1');
    await join(on, 'r2');
    const { store } = on;
    if (!reportsReleases(store)) return;
    let stop = (): void => undefined;
    const woken = new Promise<void>((resolve) => (stop = store.onRelease('key', resolve)));
    try {
      on.expect(await store.tryAcquire('key', 'writer', LONG)).toBe(undefined);
      for (const reader of ['r1', 'r2']) on.expect(await leave(on, reader)).toBe(true);
      await wokenOrPolling(woken);
      on.expect(typeof (await store.tryAcquire('key', 'writer', LONG))).toBe('bigint');
    } finally {
      stop();
    }
  }),
  sharingSentence('the release of a writer wakes readers, which then hold the key together', async (on) => {
    await write(on);
    const { store } = on;
    if (!canShare(store) || !reportsReleases(store)) return;
    let stop = (): void => undefined;
    const woken = new Promise<void>((resolve) => (stop = store.onRelease('key', resolve)));
    try {
      on.expect(await store.tryAcquireShared('key', 'r1', LONG)).toBe(undefined);
      on.expect(await store.release('key', 'writer')).toBe(true);
      await wokenOrPolling(woken);
      const grant = await store.tryAcquireShared('key', 'r1', LONG);
      on.expect(typeof grant?.token).toBe('bigint');
      on.expect(await join(on, 'r2')).toEqual(grant);
    } finally {
      stop();
    }
  }),
];

/** Further rules for stores that can grant keys in shared mode. */
export const sharedInputs: readonly Sentence[] = [
  sharingSentence('odd keys, and long ones, are shared like others', async (on) => {
    for (const key of [...ODD, `${'long '.repeat(500)}key`]) {
      const grant = await join(on, 'r1', LONG, key);
      on.expect(await join(on, 'r2', LONG, key)).toEqual(grant);
      on.expect(await on.store.tryAcquire(key, 'writer', LONG)).toBe(undefined);
      on.expect((await on.store.inspect(key))?.owner).toBe(grant.group);
      on.expect(await storeOf(on).putOffReaders(key, LONG)).toBe(true);
      on.expect(await ask(on, 'r3', LONG, key)).toBe(undefined);
      for (const reader of ['r1', 'r2']) on.expect(await leave(on, reader, key)).toBe(true);
      await expectFree(on, key);
      on.expect(await ask(on, 'r3', LONG, key)).toBe(undefined);
      on.expect(typeof (await on.store.tryAcquire(key, 'writer', LONG))).toBe('bigint');
      on.expect(await on.store.release(key, 'writer')).toBe(true);
    }
  }),
  sharingSentence('bad input is refused, and changes nothing', async (on) => {
    const texts: [unknown, string][] = [
      ['', RANGE],
      [undefined, TYPE],
      [null, TYPE],
      [5, TYPE],
      [['key'], TYPE],
    ];
    const times: [unknown, string][] = [
      [0, RANGE],
      [-1, RANGE],
      [1.5, RANGE],
      [NaN, RANGE],
      [Infinity, RANGE],
      [undefined, TYPE],
      ['1000', TYPE],
    ];
    const store = storeOf(on);
    for (const [wrong, code] of texts) {
      const text = wrong as string;
      on.expect(await codeOf(() => store.tryAcquireShared(text, 'r1', LONG))).toBe(code);
      on.expect(await codeOf(() => store.tryAcquireShared('key', text, LONG))).toBe(code);
      on.expect(await codeOf(() => store.releaseShared(text, 'r1'))).toBe(code);
      on.expect(await codeOf(() => store.releaseShared('key', text))).toBe(code);
      on.expect(await codeOf(() => store.putOffReaders(text, LONG))).toBe(code);
    }
    for (const [wrong, code] of times) {
      const time = wrong as number;
      on.expect(await codeOf(() => store.tryAcquireShared('key', 'r1', time))).toBe(code);
      on.expect(await codeOf(() => store.putOffReaders('key', time))).toBe(code);
    }
    on.expect(await codeOf(() => store.tryAcquireShared('key', 'r1,r2', LONG))).toBe(RANGE);
    on.expect(await codeOf(() => store.releaseShared('key', 'r1,r2'))).toBe(RANGE);
    await expectFree(on);
  }),
  sharingSentence('requests that come late or twice harm no one', async (on) => {
    await join(on, 'r1');
    on.expect(await leave(on, 'r1')).toBe(true);
    // The request of a reader that has left arrives again.
    const asked = on.now();
    const late = await join(on, 'r1', on.ttl);
    const other = await ask(on, 'r2', on.ttl);
    on.requireWithin(on.ttl, asked);
    on.expect(other).toEqual(late);
    await on.expire();
    await expectFree(on);
    const token = await write(on);
    for (let i = 0; i < 2; i++) {
      on.expect(await leave(on, 'r1')).toBe(false);
      on.expect(await leave(on, 'r2')).toBe(false);
      on.expect(await on.store.renew('key', late.group, LONG)).toBe(false);
      on.expect(await storeOf(on).putOffReaders('key', LONG)).toBe(false);
      on.expect(await ask(on, 'r1')).toBe(undefined);
    }
    on.expect((await on.store.inspect('key'))?.token).toBe(token);
    on.expect(await on.store.release('key', 'writer')).toBe(true);
  }),
  sharingSentence('the late copy of the request that formed a group forms another group', async (on) => {
    const first = await join(on, 'r1');
    on.expect(await revokeLease(on.store, 'key')).toBe(true);
    await write(on);
    on.expect(await on.store.release('key', 'writer')).toBe(true);
    const copy = await join(on, 'r1');
    on.expect(copy.group === first.group).toBe(false);
    on.expect(await on.store.renew('key', first.group, LONG)).toBe(false);
    on.expect(await on.store.release('key', first.group)).toBe(false);
    on.expect(await on.store.renew('key', copy.group, LONG)).toBe(true);
  }),
  sharingSentence('a renewal by the group ignores an info text', async (on) => {
    const { group, token } = await join(on, 'r1');
    await join(on, 'r2');
    const { store } = on as Scene & { readonly store: InfoLeaseStore };
    on.expect(await store.renew('key', group, LONG, 'text')).toBe(true);
    const state = await store.inspect('key');
    on.expect([state?.token, state !== undefined && 'info' in state]).toEqual([token, false]);
    on.expect(await join(on, 'r3')).toEqual({ group, token });
    for (const reader of ['r1', 'r2', 'r3']) on.expect(await leave(on, reader)).toBe(true);
    await expectFree(on);
  }),
  sharingSentence(
    'a key that a group held is not abandoned, whether its readers left it or it expired',
    async (on) => {
      if (!on.reportsAbandonment) return;
      on.expect(await abandonedOf(on, 'r1')).toBe(false);
      on.expect(await leave(on, 'r1')).toBe(true);
      on.expect(await abandonedOf(on, 'r2')).toBe(false);
      on.expect(await leave(on, 'r2')).toBe(true);
      await join(on, 'r3', on.ttl);
      await ask(on, 'r4', on.ttl);
      await on.expire();
      on.expect(await abandonedOf(on, 'r5')).toBe(false);
      on.expect(await leave(on, 'r5')).toBe(true);
      await join(on, 'r6', on.ttl);
      await on.expire();
      const details: GrantDetails = {};
      const store = on.store as AbandonmentLeaseStore;
      await store.tryAcquire('key', 'writer', LONG, undefined, details);
      on.expect(details.abandoned).toEqual([false]);
    },
  ),
  sharingSentence('readers see that the last writer abandoned the key, those that join, too', async (on) => {
    if (!on.reportsAbandonment) return;
    await write(on, 'writer', on.ttl);
    await on.expire();
    for (const reader of ['r1', 'r2', 'r1']) on.expect(await abandonedOf(on, reader)).toBe(true);
  }),
  sharingSentence('a key stays abandoned through groups, until an owner has released it', async (on) => {
    if (!on.reportsAbandonment) return;
    const ends: ((grant: SharedGrant) => Promise<unknown>)[] = [
      () => leave(on, 'r1'),
      () => on.expire(),
      () => revokeLease(on.store, 'key'),
      ({ group, token }) => (on.store as AbandonmentLeaseStore).takeBack('key', group, token, false),
      async () => {
        await storeOf(on).putOffReaders('key', LONG);
        await leave(on, 'r1');
      },
    ];
    for (const end of ends) {
      await write(on, 'gone', on.ttl);
      await on.expire();
      for (let groups = 0; groups < 2; groups++) {
        const details: GrantDetails = {};
        const grant = await storeOf(on).tryAcquireShared('key', 'r1', on.ttl, details);
        // Readers may still be put off by the previous group.
        if (grant === undefined) continue;
        on.expect(details.abandoned).toEqual([true]);
        await end(grant);
        await expectFree(on);
      }
      for (const abandoned of [true, false]) {
        const details: GrantDetails = {};
        const store = on.store as AbandonmentLeaseStore;
        await store.tryAcquire('key', 'writer', LONG, undefined, details);
        on.expect(details.abandoned).toEqual([abandoned]);
        on.expect(await on.store.release('key', 'writer')).toBe(true);
      }
      on.expect(await abandonedOf(on, 'r2')).toBe(false);
      on.expect(await leave(on, 'r2')).toBe(true);
    }
  }),
];
