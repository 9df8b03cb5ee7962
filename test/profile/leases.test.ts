import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  KeyedLock,
  LeaseManager,
  LockError,
  MemoryLeaseStore,
  type Lease,
  type LeaseStore,
} from 'stripelock';
import { collect } from 'stripelock/metrics';
import {
  profileContention,
  type ContentionProfileOptions,
  type ContentionProfiler,
  type ContentionWait,
} from 'stripelock/profile';
import { DRAW_RECORDED } from '../../unbundled/engine/contract/contention.js';
import { loadAddon } from '../../unbundled/engine/native/addon.js';
import { storeIdOf } from '../../unbundled/lease/contention.js';
import { FaultyStore } from '../leases/faulty-store.js';
import { openLeaseStore } from '../support/open-lease-store.mjs';
import { REDIS_ADVICE, redisCommand, RedisServer } from '../support/redis-server.mjs';
import { reportMissing } from '../support/requirements.js';
import { onNode20 } from '../support/sqlite-drivers.mjs';
import { sqliteDrivers, temporaryFile } from '../support/sqlite.js';
import { startThread } from '../support/threads.js';
import { rejectionOf, until } from '../support/waiting.js';

let started: ContentionProfiler | undefined;
afterEach(async () => {
  await started?.stop();
  started = undefined;
});
/** Records every wait, however short. */
async function start(options?: ContentionProfileOptions): Promise<ContentionProfiler> {
  return (started = await profileContention({ threshold: 0, sample: 1e-6, ...options }));
}

let names = 0;
/** A manager with a separate name, because counts stay. */
function managerOver(store: LeaseStore, options: object = {}): { leases: LeaseManager; name: string } {
  const name = `profiled ${++names}`;
  const leases = new LeaseManager({ store, name, ...options });
  onTestFinished(() => leases.close());
  return { leases, name };
}

const isWaiting = (name: string, waiting = 1): Promise<void> =>
  until(() => collect().find((metrics) => metrics.name === name)?.waiting === waiting, `${name} waits`);

/** A thread captures at most one stack in 0.1 ms. */
const apart = (): Promise<void> => delay(2);

async function waitsHere(leases: LeaseManager, keys: string | string[], options?: object): Promise<Lease> {
  await apart();
  const lease = leases.acquire(keys, { timeout: 30_000, ...options });
  return await lease;
}
async function releasesHere(lease: Lease): Promise<void> {
  await lease.release();
}

/**
 * Waits for a key that stays held, until a timeout. Another call waits ahead of it, so it waits even if the store does not
 * answer before the timeout.
 */
async function timesOut(leases: LeaseManager, name: string, key: string, options?: object): Promise<void> {
  const abort = new AbortController();
  const ahead = rejectionOf(leases.acquire(key, { timeout: 30_000, ...options, signal: abort.signal }));
  await isWaiting(name);
  expect(await rejectionOf(waitsHere(leases, key, { ...options, timeout: 20 }))).toMatchObject({
    code: 'ERR_LOCK_TIMEOUT',
  });
  abort.abort();
  await ahead;
}

async function wakeAt(thread: Worker): Promise<void> {
  const ended = once(thread, 'exit');
  thread.postMessage('release');
  await ended;
}

const shown = ({ lock, key, mode, kind, outcome }: ContentionWait): object => ({
  ...{ lock, key, mode, kind, outcome },
});
const common = { mode: 'exclusive', kind: 'async' };

type Place = Parameters<typeof openLeaseStore>[0];
let redis: RedisServer | undefined;
beforeAll(async () => {
  if (redisCommand === undefined) reportMissing('profiles of leases in Redis', 'redis-server', REDIS_ADVICE);
  else redis = await RedisServer.start();
});
afterAll(() => redis?.stop());

function sqlitePlace(): Place {
  const { file, remove } = temporaryFile();
  onTestFinished(remove);
  return onNode20 ? { sqlite: file } : { path: file };
}

const places: [string, () => Place][] = [
  ['memory', () => ({ handle: new MemoryLeaseStore().handle })],
  ...(sqliteDrivers.length > 0 ? [['SQLite', sqlitePlace] as [string, () => Place]] : []),
  ...(redisCommand === undefined
    ? []
    : [['Redis', () => ({ url: `redis://127.0.0.1:${redis!.port}` })] as [string, () => Place]]),
];

describe.each(places)('a profile of contention, leases in %s', (kind, placeOf) => {
  let place: Place;
  async function open(): Promise<LeaseStore> {
    place = placeOf();
    const { store, close } = await openLeaseStore(place);
    onTestFinished(async () => {
      await close();
    });
    return store;
  }

  it('names the call that waited and the call that released, in one thread', async () => {
    const { leases, name } = managerOver(await open());
    const profiler = await start();
    const lease = await leases.acquire('key');
    const next = waitsHere(leases, 'key');
    await isWaiting(name);
    await releasesHere(lease);
    await (await next).release();
    const { waits } = await profiler.stop();
    expect(waits.map(shown)).toEqual([{ ...common, lock: name, key: '"key"', outcome: 'granted' }]);
    const [{ frames, releases, threadId, waited, from, holders, owners, weight }] = waits as [ContentionWait];
    expect(frames[0]).toContain('waitsHere');
    expect(releases).toHaveLength(1);
    expect(releases[0]!.frames[0]).toContain('releasesHere');
    expect(releases[0]).toMatchObject({ threadId });
    expect(releases[0]!.share).toBeGreaterThan(0);
    expect(releases[0]!.share).toBeLessThanOrEqual(waited);
    expect(releases[0]!.at - releases[0]!.share).toBeCloseTo(from);
    expect({ holders, owners, weight }).toEqual({ holders: [], owners: [], weight: 1 });
  });

  it('names the call of another thread that released, also after that thread has ended', async () => {
    const { leases, name } = managerOver(await open());
    const profiler = await start();
    // On Node 20, the file has no source, so a profile recognizes the store only by the name of its manager.
    const data = { place, name: kind === 'SQLite' ? name : 'elsewhere', key: 'key', holds: true };
    const thread = startThread('profiled-lease.mjs', data);
    const { threadId } = thread;
    await once(thread, 'message');
    const next = waitsHere(leases, 'key');
    await isWaiting(name);
    await wakeAt(thread);
    await (await next).release();
    const { waits } = await profiler.stop();
    expect(waits.map(shown)).toEqual([{ ...common, lock: name, key: '"key"', outcome: 'granted' }]);
    expect(waits[0]!.frames[0]).toContain('waitsHere');
    expect(waits[0]!.releases).toMatchObject([{ threadId }]);
    expect(waits[0]!.releases[0]!.frames[0]).toContain('releasesInThread');
  });

  it('has the waits of a thread that has ended', async () => {
    const { leases, name: own } = managerOver(await open());
    const profiler = await start();
    const lease = await leases.acquire('key');
    const name = kind === 'SQLite' ? own : `in a thread ${++names}`;
    const thread = startThread('profiled-lease.mjs', { place, name, key: 'key', holds: false });
    const { threadId } = thread;
    const ended = once(thread, 'exit');
    await isWaiting(name);
    await releasesHere(lease);
    await ended;
    const { waits } = await profiler.stop();
    expect(waits.map(shown)).toEqual([{ ...common, lock: name, key: '"key"', outcome: 'granted' }]);
    expect(waits[0]).toMatchObject({ threadId, releases: [{ threadId: 0 }] });
    expect(waits[0]!.frames[0]).toContain('waitsInThread');
    expect(waits[0]!.releases[0]!.frames[0]).toContain('releasesHere');
  });

  it('reports waits that were not granted, with the holder that is known without a request', async () => {
    const store = await open();
    const holder = managerOver(store);
    const { leases, name } = managerOver(store);
    const profiler = await start();
    const lease = await holder.leases.acquire('theirs');
    const own = await leases.acquire('own');
    await timesOut(leases, name, 'theirs');
    await timesOut(leases, name, 'own');
    const abort = new AbortController();
    const aborted = rejectionOf(waitsHere(leases, 'theirs', { signal: abort.signal }));
    await isWaiting(name);
    abort.abort();
    await aborted;
    const closed = rejectionOf(waitsHere(leases, 'theirs'));
    await isWaiting(name);
    await leases.close();
    await closed;
    const { waits } = await profiler.stop();
    const theirs = { key: '"theirs"', holders: [], owners: kind === 'memory' ? [lease.holder] : [] };
    const ours = { key: '"own"', holders: [0], owners: [own.holder] };
    expect(waits).toMatchObject(
      [
        { ...theirs, outcome: 'aborted' },
        { ...theirs, outcome: 'timeout' },
        { ...ours, outcome: 'aborted' },
        { ...ours, outcome: 'timeout' },
        { ...theirs, outcome: 'aborted' },
        { ...theirs, outcome: 'aborted' },
      ].map((wait) => ({ ...common, lock: name, releases: [], ...wait })),
    );
    for (const at of [1, 3, 4, 5]) expect(waits[at]!.frames[0]).toContain('waitsHere');
  });

  it('names only the release of the last reader, because the others do not free the key', async () => {
    const { leases, name } = managerOver(await open());
    const profiler = await start();
    const shared = { mode: 'shared' } as const;
    const readers = [await leases.acquire('key', shared), await leases.acquire('key', shared)];
    const next = waitsHere(leases, 'key');
    await isWaiting(name);
    await readers[0]!.release();
    await releasesHere(readers[1]!);
    await (await next).release();
    const { waits } = await profiler.stop();
    expect(waits.map(shown)).toEqual([{ ...common, lock: name, key: '"key"', outcome: 'granted' }]);
    expect(waits[0]!.releases).toHaveLength(1);
    expect(waits[0]!.releases[0]!.frames[0]).toContain('releasesHere');
  });

  it('has no record of an acquisition that does not wait', async () => {
    const { leases } = managerOver(await open());
    const profiler = await start();
    const lease = await leases.acquire('key');
    expect(await leases.tryAcquire('key')).toBeUndefined();
    expect(await leases.withLease('key', { ifAvailable: true }, () => 1)).toBeUndefined();
    await rejectionOf(leases.acquire('key', { timeout: 0 }));
    await lease.release();
    await (await leases.acquire(['key', 'other'])).release();
    await leases.withLease('key', () => 1);
    expect((await profiler.stop()).waits).toEqual([]);
  });

  it('names the first key that was not free, and the release of any slot', async () => {
    const { leases, name } = managerOver(await open());
    const profiler = await start();
    const lease = await leases.acquire('b');
    const slots = [await leases.acquire('slots', { limit: 2 }), await leases.acquire('slots', { limit: 2 })];
    await timesOut(leases, name, 'slots', { limit: 2 });
    const both = waitsHere(leases, ['a', 'b']);
    await isWaiting(name);
    await releasesHere(lease);
    const pair = await both;
    const slot = waitsHere(leases, 'slots', { limit: 2 });
    await isWaiting(name);
    await releasesHere(slots[1]!);
    await (await slot).release();
    const within = leases.withLease('a', { timeout: 30_000 }, () => 1);
    await isWaiting(name);
    await releasesHere(pair);
    expect(await within).toBe(1);
    const { waits } = await profiler.stop();
    expect(waits.map(({ key, outcome }) => [key, outcome])).toEqual([
      ['"slots"', 'aborted'],
      ['"slots"', 'timeout'],
      ['"b"', 'granted'],
      ['"slots"', 'granted'],
      ['"a"', 'granted'],
    ]);
    expect(new Set(waits[1]!.owners)).toEqual(new Set(slots.map(({ holder }) => holder)));
    for (const { releases } of waits.slice(2)) {
      expect(releases).toHaveLength(1);
      expect(releases[0]!.frames[0]).toContain('releasesHere');
    }
  });
});

describe('a profile of contention, leases', () => {
  it('covers only managers with one of the names, also managers that are created later', async () => {
    const profiler = await start({ locks: ['wanted lease', 'later lease'] });
    for (const name of ['wanted lease', 'other lease', 'later lease']) {
      const { leases } = managerOver(new MemoryLeaseStore(), { name });
      const lease = await leases.acquire('key');
      const next = waitsHere(leases, 'key');
      await isWaiting(name);
      await releasesHere(lease);
      await (await next).release();
    }
    const { waits } = await profiler.stop();
    expect(waits.map(({ lock, releases }) => [lock, releases.length])).toEqual([
      ['wanted lease', 1],
      ['later lease', 1],
    ]);
  });

  it('does not attribute a wait to a release of the same key in another store', async () => {
    const profiler = await start();
    const [one, two] = [managerOver(new MemoryLeaseStore()), managerOver(new MemoryLeaseStore())];
    const held = await one.leases.acquire('key');
    const other = await two.leases.acquire('key');
    const next = waitsHere(one.leases, 'key');
    await isWaiting(one.name);
    await other.release();
    await releasesHere(held);
    await (await next).release();
    const { waits } = await profiler.stop();
    expect(waits).toHaveLength(1);
    expect(waits[0]!.releases).toHaveLength(1);
    expect(waits[0]!.releases[0]!.frames[0]).toContain('releasesHere');
  });

  it('recognizes a store that no other thread can open by the name of its managers', async () => {
    const profiler = await start();
    const store = new FaultyStore();
    const [one, two] = [managerOver(store, { name: 'same' }), managerOver(store, { name: 'same' })];
    const lease = await one.leases.acquire('key');
    const next = waitsHere(two.leases, 'key');
    await isWaiting('same');
    await releasesHere(lease);
    await (await next).release();
    expect((await profiler.stop()).waits).toMatchObject([{ releases: [{ threadId: 0 }] }]);
  });

  it('reports a wait that a permanent error of the store ended', async () => {
    const store = new FaultyStore();
    const { leases, name } = managerOver(store);
    const profiler = await start();
    const lease = await leases.acquire('key');
    const next = rejectionOf(waitsHere(leases, 'key'));
    await isWaiting(name);
    store.before.tryAcquire = () => {
      throw new LockError('ERR_OWN', 'denied');
    };
    expect(await next).toMatchObject({ code: 'ERR_OWN' });
    const { waits } = await profiler.stop();
    expect(waits).toMatchObject([{ outcome: 'failed', owners: [lease.holder] }]);
  });

  it('leaves out a wait that began before the profile, and one that ends after it', async () => {
    const { leases, name } = managerOver(new MemoryLeaseStore());
    const first = await leases.acquire('key');
    const before = waitsHere(leases, 'key');
    await isWaiting(name);
    const profiler = await start();
    await first.release();
    const second = await before;
    const after = waitsHere(leases, 'key');
    await isWaiting(name);
    expect((await profiler.stop()).waits).toEqual([]);
    const next = await start();
    await second.release();
    await (await after).release();
    expect((await next.stop()).waits).toEqual([]);
  });

  it('identifies a store by its source, without its password', () => {
    const idOf = (password: string): string => {
      const source = { module: 'stripelock/redis', name: 'open', options: { password } };
      return storeIdOf({ source } as unknown as LeaseStore, 'name');
    };
    expect(idOf('secret')).toBe(idOf('secret'));
    expect(idOf('secret')).not.toBe(idOf('another'));
    expect(idOf('secret')).not.toContain('secret');
  });

  it('forgets the wait of a thread that is terminated, so that it makes no release recorded any more', async () => {
    const store = new MemoryLeaseStore();
    const { leases } = managerOver(store);
    await start();
    const lease = await leases.acquire('key');
    const name = `terminated ${++names}`;
    const place = { handle: store.handle };
    const thread = startThread('profiled-lease.mjs', { place, name, key: 'key', holds: false });
    await isWaiting(name);
    const addon = loadAddon();
    const isRecorded = (): boolean => addon.drawLeaseRelease(`${storeIdOf(store, '')} key`) >= DRAW_RECORDED;
    expect(isRecorded()).toBe(true);
    await thread.terminate();
    expect(isRecorded()).toBe(false);
    await lease.release();
  });

  it('has leases and locks side by side, in the summary and in the trace', async () => {
    const { leases, name } = managerOver(new MemoryLeaseStore());
    const lock = new KeyedLock({ name: 'beside' });
    const profiler = await start();
    const [lease, guard] = [await leases.acquire('key'), lock.acquireSync('key')];
    const waits = [waitsHere(leases, 'key'), lock.acquire('key')] as const;
    await isWaiting(name);
    await releasesHere(lease);
    guard.release();
    await (await waits[0]).release();
    (await waits[1]).release();
    const profile = await profiler.stop();
    expect(profile.waits.map(({ lock: of }) => of).sort()).toEqual(['beside', name].sort());
    expect(profile.summary()).toContain(`${name} "key"`);
    const slices = profile.trace().traceEvents.map(({ name: of }) => of);
    expect(slices).toContain(`wait ${name} "key"`);
    expect(slices).toContain(`hold ${name} "key"`);
  });

  it('works while a program replaces Error.prepareStackTrace by a function that throws', async () => {
    const { leases, name } = managerOver(new MemoryLeaseStore());
    const profiler = await start();
    const lease = await leases.acquire('key');
    const prepare: unknown = Reflect.get(Error, 'prepareStackTrace');
    Error.prepareStackTrace = () => {
      throw new Error('no stack');
    };
    try {
      const next = leases.acquire('key', { timeout: 30_000 });
      await isWaiting(name);
      await lease.release();
      await (await next).release();
    } finally {
      Reflect.set(Error, 'prepareStackTrace', prepare);
    }
    expect((await profiler.stop()).waits).toMatchObject([{ outcome: 'granted' }]);
  });
});
