import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import {
  LeaseManager,
  MemoryLeaseStore,
  revokeLease,
  type Lease,
  type LeaseMessage,
  type SharedLeaseStore,
} from 'stripelock';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { FixedClock } from 'stripelock/testing';
import { block } from '../support/block.js';
import { messagesOf } from '../support/channels.js';
import { runProgram } from '../support/programs.js';
import { sqliteDrivers, temporaryFile } from '../support/sqlite.js';
import { startThread } from '../support/threads.js';
import { rejectionOf, turns, until, watch } from '../support/waiting.js';
import { FaultyStore } from './faulty-store.js';
import { managerOn, PATIENT, SHARED, TTL } from './shared-setup.js';

// Leases in shared mode. The contract of stores tests what each store does.

/** Opens another client of the store of the test. */
type Open = (clock?: FixedClock) => SharedLeaseStore;

function memory(): Open {
  let store: MemoryLeaseStore | undefined;
  return (clock) => (store ??= new MemoryLeaseStore(clock === undefined ? {} : { clock }));
}

function sqlite(): Open {
  const { file, remove } = temporaryFile();
  onTestFinished(remove);
  return (clock) => {
    const database = sqliteDrivers[0]!.open(file);
    onTestFinished(() => void database.close());
    return sqliteLeaseStore(clock === undefined ? { database } : { database, clock });
  };
}

const PLACES = [
  { name: 'the memory store', start: memory },
  ...(sqliteDrivers.length > 0 ? [{ name: 'SQLite', start: sqlite }] : []),
];

describe.each(PLACES)('shared leases over $name', ({ start }) => {
  let open: Open;
  beforeEach(() => {
    open = start();
  });

  it('a reader behind a writer times out, and its error names the holder', async () => {
    const manager = managerOn(open());
    const writer = await manager.acquire('key');
    const error = await rejectionOf(manager.acquire('key', { ...SHARED, timeout: 30 }));
    expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT' });
    expect(String(error)).toContain(writer.holder);
    expect(await writer.release()).toBe(true);
    expect(await (await manager.acquire('key', SHARED)).release()).toBe(true);
  });

  it('a writer behind readers times out, and its error says so', async () => {
    const manager = managerOn(open());
    const reader = await manager.acquire('key', SHARED);
    const error = await rejectionOf(manager.acquire('key', { timeout: 30 }));
    expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT' });
    expect(String(error)).toMatch(/it is held in shared mode, also by this LeaseManager, for \d+ ms/);
    expect(await reader.release()).toBe(true);
  });

  it('a reader that is aborted while it waits leaves nothing behind', async () => {
    const manager = managerOn(open());
    const writer = await manager.acquire('key');
    const controller = new AbortController();
    const waiting = watch(manager.acquire('key', { ...SHARED, timeout: PATIENT, signal: controller.signal }));
    await turns();
    controller.abort(new Error('enough'));
    expect(await rejectionOf(waiting.promise)).toEqual(new Error('enough'));
    expect(await writer.release()).toBe(true);
    const next = await manager.acquire('key', { timeout: PATIENT });
    expect(await next.release()).toBe(true);
  });

  it('of a manager are served in the order of arrival, and readers together', async () => {
    // No waiter polls during this test: a release wakes the first reader, and its grant wakes the next one.
    const manager = managerOn(open(), { backoff: { initial: 50_000, max: 50_000, jitter: 0 } });
    const first = await manager.acquire('key', SHARED);
    const writing = watch(manager.acquire('key', { timeout: PATIENT }));
    await turns();
    const reading = [1, 2, 3].map(() => watch(manager.acquire('key', { ...SHARED, timeout: PATIENT })));
    await turns();
    expect(await first.release()).toBe(true);
    const writer = await writing.promise;
    await turns();
    expect(reading.map(({ state }) => state)).toEqual(reading.map(() => 'pending'));
    expect(await writer.release()).toBe(true);
    const readers = await Promise.all(reading.map(({ promise }) => promise));
    expect(readers.every(({ held }) => held)).toBe(true);
    expect(new Set(readers.map(({ token }) => token)).size).toBe(1);
    for (const reader of readers) expect(await reader.release()).toBe(true);
  });

  it('readers that wait are served beside writers that come all the time', async () => {
    const counts = { readers: 0, writers: 0, most: 0 };
    const served = { readers: 0, writers: 0 };
    const work = async (kind: 'readers' | 'writers', manager: LeaseManager): Promise<void> => {
      while (served.readers < 20 || served.writers < 20) {
        const mode = kind === 'readers' ? 'shared' : 'exclusive';
        const lease = await manager.acquire('key', { mode, timeout: PATIENT });
        counts[kind]++;
        counts.most = Math.max(counts.most, counts.readers);
        expect(counts.writers === 0 || counts.readers + counts.writers === 1).toBe(true);
        await turns(1);
        expect(counts.writers === 0 || counts.readers + counts.writers === 1).toBe(true);
        expect(lease.held).toBe(true);
        counts[kind]--;
        served[kind]++;
        await lease.release();
      }
    };
    const managers = [1, 2].map(() => managerOn(open()));
    await Promise.all(
      managers.flatMap((manager) => [
        work('readers', manager),
        work('readers', manager),
        work('writers', manager),
      ]),
    );
    expect(counts.most).toBeGreaterThan(1);
  }, 60_000);

  it('a reader whose maxHold ends leaves the others, so that the key is free after them', async () => {
    const clock = new FixedClock(Date.now());
    const store = open(clock);
    const short = managerOn(open(clock), { clock, ttl: TTL, maxHold: 1 });
    const long = managerOn(open(clock), { clock, ttl: TTL });
    const ended = await short.acquire('key', SHARED);
    const lasting = await long.acquire('key', SHARED);
    for (let i = 0; i < 20; i++) {
      clock.advance(TTL / 10);
      await turns();
    }
    expect([ended.held, lasting.held]).toEqual([false, true]);
    expect(ended.signal.reason).toMatchObject({ code: 'ERR_LEASE_LOST' });
    expect(await lasting.release()).toBe(true);
    expect(await store.inspect('key')).toBe(undefined);
  });

  it('a reader that does not renew loses its lease, although the group keeps the key', async () => {
    const clock = new FixedClock(Date.now());
    const [one, other] = [1, 2].map(() => managerOn(open(clock), { clock, ttl: TTL }));
    const lost = await one!.acquire('key', { ...SHARED, renew: false });
    const kept = await other!.acquire('key', { ...SHARED, ttl: 100 * TTL });
    clock.advance(TTL);
    expect([lost.held, kept.held]).toEqual([false, true]);
    expect(await lost.renew()).toBe(false);
    await turns();
    expect(await kept.release()).toBe(true);
    expect(await (await other!.acquire('key')).release()).toBe(true);
  });

  describe('a reader that was lost with another key of its lease', () => {
    /** Loses a lease of the keys `a` and `key`, while another reader holds `key`. */
    async function loses(clock: FixedClock): Promise<{ lost: Lease; kept: Lease; store: SharedLeaseStore }> {
      const store = open(clock);
      const [one, other] = [1, 2].map(() => managerOn(open(clock), { clock, ttl: TTL }));
      const lost = await one!.acquire(['a', 'key'], SHARED);
      const kept = await other!.acquire('key', { ...SHARED, ttl: 100 * TTL });
      expect(await revokeLease(store, 'a')).toBe(true);
      clock.advance(TTL / 2);
      await turns();
      expect([lost.held, kept.held]).toEqual([false, true]);
      return { lost, kept, store };
    }

    it('stays in its group until its TTL expires, because its holder may still be working', async () => {
      const clock = new FixedClock(Date.now());
      const { kept, store } = await loses(clock);
      expect(await kept.release()).toBe(true);
      expect(await store.inspect('key')).not.toBe(undefined);
    });

    it('leaves its group when its TTL expires', async () => {
      const clock = new FixedClock(Date.now());
      const { kept, store } = await loses(clock);
      clock.advance(TTL);
      await turns();
      expect(await kept.release()).toBe(true);
      expect(await store.inspect('key')).toBe(undefined);
    });

    it.each([0, TTL])('leaves its group when it is released, %d ms later', async (later) => {
      const clock = new FixedClock(Date.now());
      const { lost, kept, store } = await loses(clock);
      clock.advance(later);
      expect(await lost.release()).toBe(false);
      expect(await kept.release()).toBe(true);
      expect(await store.inspect('key')).toBe(undefined);
    });
  });

  it('a reader that was put off times out, and its error says so', async () => {
    const store = open();
    const [manager, other] = [managerOn(open()), managerOn(open())];
    const reader = await manager.acquire('key', SHARED);
    await store.putOffReaders('key', PATIENT);
    const why = 'new readers are put off for an exclusive acquisition';
    for (const timeout of [0, 30]) {
      const own = String(await rejectionOf(manager.acquire('key', { ...SHARED, timeout })));
      expect(own).toContain(`: it is held in shared mode, also by this LeaseManager, and ${why}`);
      const error = String(await rejectionOf(other.acquire('key', { ...SHARED, timeout })));
      const known = store instanceof MemoryLeaseStore ? 'in shared mode, and' : 'exclusively, or';
      expect(error).toContain(`: it is held ${known} ${why}`);
    }
    expect(await reader.release()).toBe(true);
    const error = String(await rejectionOf(other.acquire('key', { ...SHARED, timeout: 30 })));
    expect(error).toContain(`: it is held exclusively, or ${why}`);
    expect(await (await other.acquire('key')).release()).toBe(true);
    expect(await (await manager.acquire('key', SHARED)).release()).toBe(true);
  });

  it('close gives back the shares of its manager, and no others', async () => {
    const store = open();
    const [one, other] = [managerOn(open()), managerOn(open())];
    const leases = [await one.acquire('key', SHARED), await one.acquire(['a', 'key'], SHARED)];
    const kept = await other.acquire('key', SHARED);
    await one.close();
    expect(leases.map(({ held }) => held)).toEqual([false, false]);
    expect(await store.inspect('a')).toBe(undefined);
    expect((await store.inspect('key'))?.token).toBe(kept.token);
    expect(await kept.release()).toBe(true);
    expect(await store.inspect('key')).toBe(undefined);
  });

  it('close with drain waits for shared leases', async () => {
    const manager = managerOn(open());
    const lease = await manager.acquire('key', SHARED);
    const closing = watch(manager.close({ drain: PATIENT }));
    await turns();
    expect([closing.state, lease.held]).toEqual(['pending', true]);
    expect(await lease.release()).toBe(true);
    await closing.promise;
  });

  it('a revocation reaches every reader at its next renewal', async () => {
    const clock = new FixedClock(Date.now());
    const store = open(clock);
    const managers = [1, 2].map(() => managerOn(open(clock), { clock, ttl: TTL }));
    const leases = await Promise.all(managers.map((manager) => manager.acquire('key', SHARED)));
    expect(await revokeLease(store, 'key')).toBe(true);
    const token = await store.tryAcquire('key', 'writer', PATIENT);
    for (let i = 0; i < 5; i++) {
      clock.advance(TTL / 10);
      await turns();
    }
    expect(leases.map(({ held }) => held)).toEqual([false, false]);
    expect((await store.inspect('key'))?.token).toBe(token);
  });

  it('a reader sees that a writer abandoned the key, and only an exclusive release ends that', async () => {
    const clock = new FixedClock(Date.now());
    const store = open(clock);
    const manager = managerOn(open(clock), { clock, ttl: TTL, renew: false });
    await store.tryAcquire('key', 'gone', TTL);
    clock.advance(2 * TTL);
    const readers = [await manager.acquire('key', SHARED), await manager.acquire('key', SHARED)];
    expect(readers.map(({ abandoned }) => abandoned)).toEqual([true, true]);
    for (const reader of readers) expect(await reader.release()).toBe(true);
    for (const isAbandoned of [true, false]) {
      await manager.acquire('key', SHARED);
      clock.advance(2 * TTL);
      await turns();
      const writer = await manager.acquire('key');
      expect(writer.abandoned).toBe(isAbandoned);
      expect(await writer.release()).toBe(true);
    }
  });

  it('keep the key abandoned if they are given back, because another key was refused', async () => {
    const clock = new FixedClock(Date.now());
    const store = open(clock);
    const manager = managerOn(open(clock), { clock, ttl: TTL, renew: false });
    await store.tryAcquire('a', 'gone', TTL);
    clock.advance(2 * TTL);
    const writer = await manager.acquire('b');
    expect(await manager.tryAcquire(['a', 'b'], SHARED)).toBeUndefined();
    await expect.poll(() => store.inspect('a')).toBeUndefined();
    const reader = await manager.acquire('a', SHARED);
    expect(reader.abandoned).toBe(true);
    expect(await reader.release()).toBe(true);
    expect(await writer.release()).toBe(true);
  });

  it('are published like others, with the group as the holder', async () => {
    const granted = messagesOf<LeaseMessage>('stripelock:lease:acquired');
    const released = messagesOf<LeaseMessage>('stripelock:lease:released');
    const manager = managerOn(open());
    const leases = [await manager.acquire('key', SHARED), await manager.acquire('key', SHARED)];
    for (const lease of leases) await lease.release();
    const { token, holder } = leases[0]!;
    expect(holder).toMatch(/^stripelock:readers:/);
    for (const messages of [granted, released]) {
      expect(messages.map((message) => [message.key, message.token, message.holder])).toEqual(
        leases.map(() => ['key', token, holder]),
      );
    }
  });

  it('with a named holder are separate from its exclusive leases', async () => {
    const manager = managerOn(open(), { holder: 'me' });
    const readers = [await manager.acquire('key', SHARED), await manager.acquire('key', SHARED)];
    expect(await manager.tryAcquire('key')).toBe(undefined);
    expect(readers.map(({ held }) => held)).toEqual([true, true]);
    for (const reader of readers) expect(await reader.release()).toBe(true);
    const writer = await manager.acquire('key');
    expect([writer.holder, writer.mode]).toEqual(['me', 'exclusive']);
    expect(await manager.tryAcquire('key', SHARED)).toBe(undefined);
    expect([writer.held, await writer.release()]).toEqual([true, true]);
  });

  it('of a reentrant manager are joined by nested acquisitions, also while readers are put off', async () => {
    const store = open();
    const manager = managerOn(open(), { reentrant: true });
    const outer = await manager.acquire('key', SHARED);
    await store.putOffReaders('key', PATIENT);
    expect(await managerOn(open()).tryAcquire('key', SHARED)).toBe(undefined);
    const inner = await manager.acquire('key', SHARED);
    expect([outer.users, inner.users]).toEqual([2, 2]);
    expect(await manager.tryAcquire('key')).toBe(undefined);
    expect([await outer.release(), await inner.release()]).toEqual([false, true]);
    const writer = await manager.acquire('key');
    const nested = await manager.acquire('key', SHARED);
    expect([nested.mode, nested.token]).toEqual(['exclusive', writer.token]);
    expect([await writer.release(), await nested.release()]).toEqual([false, true]);
    expect(await store.inspect('key')).toBe(undefined);
  });

  it('whose grants are lost on their way are given back', async () => {
    const store = open();
    let losses = 3;
    const losing = new Proxy(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        if (name !== 'tryAcquireShared') return value.bind(target) as unknown;
        return async (...of: unknown[]): Promise<unknown> => {
          const answer: unknown = await Reflect.apply(value, target, of);
          if (losses-- > 0) throw new Error('the connection was lost');
          return answer;
        };
      },
    });
    const manager = managerOn(losing);
    const lease = await manager.acquire('key', { ...SHARED, timeout: PATIENT });
    expect(await lease.release()).toBe(true);
    const writer = await managerOn(open()).acquire('key', { timeout: PATIENT });
    expect(await writer.release()).toBe(true);
    losses = 1;
    expect(await rejectionOf(manager.tryAcquire('key', SHARED))).toMatchObject({ code: 'ERR_LEASE_STORE' });
    const next = await managerOn(open()).acquire('key', { timeout: PATIENT });
    expect(await next.release()).toBe(true);
  });

  it('whose releases fail are given back by close', async () => {
    const store = open();
    let failures = 2;
    const failing = new Proxy(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        if (name !== 'releaseShared') return value.bind(target) as unknown;
        return async (...of: unknown[]): Promise<unknown> => {
          if (failures-- > 0) throw new Error('the network is down');
          return Reflect.apply(value, target, of);
        };
      },
    });
    const manager = new LeaseManager({ store: failing, backoff: { initial: 5, max: 20 } });
    const lease = await manager.acquire('key', SHARED);
    expect(await rejectionOf(lease.release())).toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect(await rejectionOf(lease.release())).toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect(await lease.release()).toBe(true);
    failures = 2;
    await manager.acquire('key', SHARED);
    await manager.close();
    expect(await store.inspect('key')).toBe(undefined);
  });
});

describe('shared leases', () => {
  it('need a store that can grant them', async () => {
    const manager = new LeaseManager({ store: new FaultyStore() });
    for (const asked of [manager.acquire('key', SHARED), manager.tryAcquire('key', SHARED)]) {
      expect(await rejectionOf(asked)).toMatchObject({ code: 'ERR_LEASE_SHARED' });
    }
    expect(await rejectionOf(manager.withLease('key', SHARED, () => 1))).toMatchObject({
      code: 'ERR_LEASE_SHARED',
    });
  });

  it('have no limit, minHold or info of their own, and ignore those of the manager', async () => {
    const manager = new LeaseManager({ info: 'text', minHold: PATIENT });
    for (const options of [{ limit: 2 }, { minHold: 1 }]) {
      expect(await rejectionOf(manager.acquire('key', { ...SHARED, ...options }))).toMatchObject({
        code: 'ERR_OUT_OF_RANGE',
      });
    }
    expect(await rejectionOf(manager.acquire('key', { ...SHARED, info: 'text' }))).toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
    });
    const lease = await manager.acquire('key', SHARED);
    expect(await rejectionOf(lease.setInfo('text'))).toMatchObject({ code: 'ERR_LEASE_SHARED' });
    expect(await manager.store.inspect('key')).not.toHaveProperty('info');
    expect(await lease.release()).toBe(true);
    expect(await manager.store.inspect('key')).toBe(undefined);
  });

  it.each([
    ['read', 'ERR_OUT_OF_RANGE'],
    ['', 'ERR_OUT_OF_RANGE'],
    [5, 'ERR_INVALID_ARG_TYPE'],
    [null, 'ERR_INVALID_ARG_TYPE'],
  ])('a mode of %j is refused', async (mode, code) => {
    const manager = new LeaseManager();
    expect(await rejectionOf(manager.acquire('key', { mode: mode as 'shared' }))).toMatchObject({ code });
  });

  it('no holder may have the name of a group', () => {
    const holder = 'stripelock:readers:me';
    expect(() => new LeaseManager({ holder })).toThrow(expect.objectContaining({ code: 'ERR_OUT_OF_RANGE' }));
  });

  it('that are renewed in the background outlast a blocked event loop', async () => {
    const store = new MemoryLeaseStore();
    const manager = managerOn(store, { ttl: 2000, renew: { background: true }, maxHold: PATIENT });
    const leases = [await manager.acquire('key', SHARED), await manager.acquire('key', SHARED)];
    block(5000);
    expect(leases.map(({ held }) => held)).toEqual([true, true]);
    expect(await leases[0]!.renew()).toBe(true);
    for (const lease of leases) expect(await lease.release()).toBe(true);
    expect(await store.inspect('key')).toBe(undefined);
  }, 30_000);

  it('that are forgotten leave the group when their TTL expires', async () => {
    const { code, stdout } = await runProgram('forgotten-reader.mjs', [], ['--expose-gc', '--no-warnings']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      warned: 'STRIPELOCK_LEASE_FORGOTTEN',
      held: true,
      left: true,
      free: true,
    });
  }, 60_000);

  it('of two threads exclude writers of both', async () => {
    const store = new MemoryLeaseStore();
    const counts = new Int32Array(new SharedArrayBuffer(16));
    const threads = [1, 2].map(() =>
      startThread('lease-readers.mjs', { place: { handle: store.handle }, counts: counts.buffer }),
    );
    const ends = await Promise.all(threads.map((thread) => once(thread, 'exit') as Promise<[number]>));
    expect(ends.map(([code]) => code)).toEqual([0, 0]);
    const [, , violations, most] = counts;
    expect(violations).toBe(0);
    expect(most).toBeGreaterThan(1);
    expect(await store.inspect('key')).toBe(undefined);
  }, 60_000);
});

describe.runIf(sqliteDrivers.length > 0)('a process that reads', () => {
  it('and is killed delays a writer only until its TTL, although other readers came and went', async () => {
    const { file, remove } = temporaryFile();
    onTestFinished(remove);
    const database = sqliteDrivers[0]!.open(file);
    onTestFinished(() => void database.close());
    const manager = managerOn(sqliteLeaseStore({ database }), { ttl: 2000 });
    const path = fileURLToPath(new URL('../programs/sqlite-reader.mjs', import.meta.url));
    const child = fork(path, [file]);
    onTestFinished(() => void child.kill('SIGKILL'));
    const [token] = (await once(child, 'message')) as [string];
    const reader = await manager.acquire('key', SHARED);
    expect(String(reader.token)).toBe(token);
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
    const writing = watch(manager.acquire('key', { timeout: PATIENT }));
    await delay(50);
    expect([writing.state, reader.held]).toEqual(['pending', true]);
    expect(await reader.release()).toBe(true);
    const writer: Lease = await writing.promise;
    expect(writer.token).toBeGreaterThan(reader.token);
    expect(await writer.release()).toBe(true);
  }, 30_000);
});

describe('an exclusive waiter', () => {
  it('puts off readers from its second refusal on, and no more often than needed', async () => {
    const store = new MemoryLeaseStore();
    const asked: unknown[][] = [];
    const recording = new Proxy(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        if (name !== 'putOffReaders') return value.bind(target) as unknown;
        return (...of: unknown[]): Promise<boolean> => {
          asked.push(of);
          return Promise.reject(new Error('this does not matter'));
        };
      },
    });
    const manager = managerOn(recording);
    const reader = await manager.acquire('key', SHARED);
    expect(await manager.tryAcquire('key')).toBe(undefined);
    expect(await rejectionOf(manager.acquire('key', { timeout: 0 }))).toMatchObject({
      code: 'ERR_LOCK_TIMEOUT',
    });
    expect(asked).toEqual([]);
    const writing = watch(manager.acquire('key', { timeout: PATIENT }));
    await until(() => asked.length > 0, 'readers are put off');
    expect(asked[0]).toEqual(['key', 1000]);
    expect(await reader.release()).toBe(true);
    expect(await (await writing.promise).release()).toBe(true);
  });
});
