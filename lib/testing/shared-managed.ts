import type { LeaseStore } from '../lease/contract/lease-store.js';
import type { LeaveDetails, SharedLeaseStore } from '../lease/contract/shared.js';
import { LeaseManager } from '../lease/manager.js';
import { revokeLease } from '../lease/revoke.js';
import type { Scene, Sentence } from './framework.js';
import { sharingSentence } from './shared.js';

/** A TTL that does not expire in these tests, in milliseconds. */
const LONG = 600_000;

type Lease = Awaited<ReturnType<LeaseManager['acquire']>>;

/** The number of turns of readers after which a writer that polls has waited too long. */
const MOST_TURNS = 16;
/** A writer puts off readers for twice the longest pause. That is longer than any turn, also on a slow machine. */
const PATIENT = { initial: 5, max: 30_000 };

/** A manager whose waiters poll often. */
function managerOn(on: Scene): LeaseManager {
  return new LeaseManager({ store: on.store, ttl: LONG, backoff: { initial: 5, max: 20 } });
}

/** The store with other methods. Does not report releases, so that waiters poll. */
function pollingStore(store: LeaseStore, methods: Partial<SharedLeaseStore>): SharedLeaseStore {
  return new Proxy(store as SharedLeaseStore, {
    get(target, name) {
      if (name === 'onRelease' || name === 'source') return undefined;
      const value: unknown = Reflect.get(methods, name) ?? Reflect.get(target, name, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

async function expectFree(on: Scene, key = 'key'): Promise<void> {
  on.expect(await on.store.inspect(key)).toBe(undefined);
}

/** The rules that a manager depends on when it acquires leases in shared mode. */
export const sharedManaged: readonly Sentence[] = [
  sharingSentence(
    'readers of two managers hold a key together, and a writer that waits has it after them',
    async (on) => {
      const one = new LeaseManager({ store: on.store, ttl: LONG });
      const other = new LeaseManager({ store: on.store, ttl: LONG, backoff: { initial: 5, max: 20 } });
      const readers = [
        await one.acquire('key', { mode: 'shared' }),
        await other.acquire('key', { mode: 'shared' }),
        await one.acquire('key', { mode: 'shared' }),
      ];
      on.expect(readers.map(({ mode, token }) => [mode, token])).toEqual(
        readers.map(() => ['shared', readers[0]!.token]),
      );
      const waiting = other.acquire('key', { timeout: 30_000 });
      on.expect(await readers[0]!.renew()).toBe(true);
      for (const reader of readers) on.expect(await reader.release()).toBe(true);
      const writer = await waiting;
      on.expect([writer.mode, writer.token > readers[0]!.token]).toEqual(['exclusive', true]);
      on.expect(await one.tryAcquire('key', { mode: 'shared' })).toBe(undefined);
      const next = one.acquire('key', { mode: 'shared', timeout: 30_000 });
      on.expect(await writer.release()).toBe(true);
      const reader = await next;
      on.expect(reader.token > writer.token).toBe(true);
      on.expect(await reader.release()).toBe(true);
      await expectFree(on);
    },
  ),
  sharingSentence('a writer has its turn although readers hold the key all the time', async (on) => {
    const [writers, readers] = [managerOn(on), managerOn(on)];
    let reader = await readers.acquire('key', { mode: 'shared' });
    let isGranted = false;
    const waiting = writers.acquire('key', { timeout: 30_000 }).finally(() => (isGranted = true));
    // Each reader keeps the key until the next one has it, or is put off.
    while (!isGranted) {
      const next = await readers.tryAcquire('key', { mode: 'shared' });
      await reader.release();
      if (next === undefined) break;
      reader = next;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    const writer = await waiting;
    on.expect(writer.token > reader.token).toBe(true);
    on.expect(await writer.release()).toBe(true);
  }),
  sharingSentence(
    'a writer that polls has its turn although readers of several managers come before each of its attempts',
    async (on) => {
      const readers = [managerOn(on), managerOn(on), managerOn(on)];
      const read = (): Promise<(Lease | undefined)[]> =>
        Promise.all(
          // A busy server may not answer in time.
          readers.map((manager) => manager.tryAcquire('key', { mode: 'shared' }).catch(() => undefined)),
        );
      const shared = on.store as SharedLeaseStore;
      const late = new AbortController();
      let turns = 0;
      let leases: (Lease | undefined)[] = [];
      let puttingOff: Promise<unknown> = Promise.resolve();
      const store = pollingStore(on.store, {
        // Before each attempt, all readers leave, and others come at once.
        tryAcquire: async (...request) => {
          await puttingOff;
          for (const lease of leases) await lease?.release();
          leases = await read();
          if (leases.some(Boolean) && ++turns > MOST_TURNS)
            late.abort(new Error('readers overtook the writer'));
          return shared.tryAcquire(...request);
        },
        putOffReaders: (...request) => {
          const answer = shared.putOffReaders(...request);
          puttingOff = answer.catch(() => undefined);
          return answer;
        },
      });
      const writers = new LeaseManager({ store, ttl: LONG, backoff: PATIENT });
      const writer = await writers.acquire('key', { timeout: LONG, signal: late.signal });
      on.expect(turns > 0).toBe(true);
      on.expect(await read()).toEqual(readers.map(() => undefined));
      on.expect(await writer.release()).toBe(true);
      const next = await Promise.all(readers.map((manager) => manager.acquire('key', { mode: 'shared' })));
      for (const reader of next) {
        on.expect(reader.token).toBe(next[0]!.token);
        on.expect(await reader.release()).toBe(true);
      }
    },
  ),
  sharingSentence('a shared lease that is revoked is lost at its next renewal', async (on) => {
    const manager = new LeaseManager({ store: on.store, ttl: LONG, renew: false });
    const leases = [
      await manager.acquire('key', { mode: 'shared' }),
      await manager.acquire('key', { mode: 'shared' }),
    ];
    on.expect(await revokeLease(on.store, 'key')).toBe(true);
    const writer = await manager.tryAcquire('key');
    on.expect(writer !== undefined && writer.token > leases[0]!.token).toBe(true);
    for (const lease of leases) {
      on.expect(await lease.renew()).toBe(false);
      on.expect((lease.signal.reason as { code?: unknown }).code).toBe('ERR_LEASE_LOST');
    }
    on.expect(await writer?.renew()).toBe(true);
    on.expect(await writer?.release()).toBe(true);
  }),
  sharingSentence('several keys are shared together, all of them or none', async (on) => {
    const manager = new LeaseManager({ store: on.store, ttl: LONG });
    const both = await manager.acquire(['b', 'a'], { mode: 'shared' });
    on.expect([both.keys, both.mode]).toEqual([['a', 'b'], 'shared']);
    const writer = await manager.acquire('c');
    on.expect(await manager.tryAcquire(['a', 'c'], { mode: 'shared' })).toBe(undefined);
    on.expect(await both.release()).toBe(true);
    for (const key of ['a', 'b']) await expectFree(on, key);
    on.expect(await writer.release()).toBe(true);
  }),
  sharingSentence('the details of a release never say the opposite of what it did', async (on) => {
    const store = on.store as SharedLeaseStore;
    const freed: (boolean | undefined)[] = [];
    for (const reader of ['r1', 'r2']) await store.tryAcquireShared('key', reader, LONG);
    for (const reader of ['r1', 'r2']) {
      const details: LeaveDetails = {};
      on.expect(await store.releaseShared('key', reader, details)).toBe(true);
      freed.push(details.freed);
    }
    on.expect([freed[0] === true, freed[1] === false]).toEqual([false, false]);
  }),
];
