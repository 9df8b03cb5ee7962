import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager, LockTimeoutError, MemoryLeaseStore, type LeaseStore } from 'stripelock';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { FAILED_PROMISE, listenToSpans, PROMISE } from '../support/spans.js';
import { sqliteDrivers, temporaryFile } from '../support/sqlite.js';
import { rejectionOf, turns } from '../support/waiting.js';

function openSqlite(open: (file: string) => object): LeaseStore {
  const { file, remove } = temporaryFile();
  const store = sqliteLeaseStore({ database: open(file) as never });
  onTestFinished(async () => {
    await store.close();
    remove();
  });
  return store;
}

const stores: [string, () => LeaseStore][] = [
  ['memory', () => new MemoryLeaseStore()],
  ...sqliteDrivers.map(({ name, open }): [string, () => LeaseStore] => [name, () => openSqlite(open)]),
];

function managerOver(store: LeaseStore): LeaseManager {
  const leases = new LeaseManager({ store, name: 'spans' });
  onTestFinished(() => leases.close());
  return leases;
}

const COMMON = { lock: 'spans', keys: ['key'], mode: 'exclusive', kind: 'async', threadId: 0 };

describe.each(stores)('the tracing channel, leases over %s', (_name, open) => {
  it('has a span for each acquisition, whatever its outcome', async () => {
    const leases = managerOver(open());
    const spans = listenToSpans();
    const lease = await leases.acquire('key');
    const pair = (await leases.tryAcquire(['a', 'b']))!;
    const slot = await leases.acquire('slots', { limit: 2 });
    expect(await leases.tryAcquire('key')).toBeUndefined();
    expect(await leases.withLease('key', { ifAvailable: true }, () => 1)).toBeUndefined();
    const refused = await rejectionOf(leases.acquire(['key', 'c'], { timeout: 0 }));
    const late = await rejectionOf(leases.withLease('key', { timeout: 20 }, () => 1));
    const abort = new AbortController();
    const aborted = rejectionOf(leases.acquire('key', { signal: abort.signal }));
    const next = leases.acquire('key');
    abort.abort('enough');
    expect(await aborted).toBe('enough');
    await lease.release();
    const second = await next;
    await second.release();

    expect([...spans]).toEqual([
      [{ ...COMMON, result: lease }, PROMISE],
      [{ ...COMMON, keys: ['a', 'b'], result: pair }, PROMISE],
      [{ ...COMMON, keys: ['slots'], result: slot }, PROMISE],
      [{ ...COMMON, result: undefined }, PROMISE],
      [{ ...COMMON, result: undefined }, PROMISE],
      [{ ...COMMON, keys: ['key', 'c'], error: refused }, FAILED_PROMISE],
      [{ ...COMMON, error: late }, FAILED_PROMISE],
      [{ ...COMMON, error: 'enough' }, FAILED_PROMISE],
      [{ ...COMMON, result: second }, PROMISE],
    ]);
    expect(late).toBeInstanceOf(LockTimeoutError);
  });

  it('has spans of withLease that end when the lease is granted', async () => {
    const leases = managerOver(open());
    const spans = listenToSpans();
    const body = (): unknown[] => [...spans].at(-1)![1];
    const PROMISED = [...PROMISE];
    expect(await leases.withLease('key', body)).toEqual(PROMISED);
    expect(await leases.withLease('key', { timeout: 20_000 }, body)).toEqual(PROMISED);
    expect(await leases.withLease('key', { ifAvailable: true }, body)).toEqual(PROMISED);
    expect(spans.size).toBe(3);
  });
});

describe('the tracing channel, leases', () => {
  it('has complete spans of calls with bad arguments, and of a manager that is closed', async () => {
    const leases = managerOver(new MemoryLeaseStore());
    const spans = listenToSpans();
    const throwing = new Proxy(['key'], {
      get() {
        throw new Error('unreadable');
      },
    });
    const errors = [
      await rejectionOf(leases.acquire(5 as never)),
      await rejectionOf(leases.acquire('key', { mod: 1 } as never)),
      await rejectionOf(leases.tryAcquire('key', { timeout: 1 } as never)),
      await rejectionOf(leases.withLease('key', { ifAvailable: 1 } as never, () => 1)),
      await rejectionOf(leases.acquire(throwing)),
    ];
    const held = await leases.acquire('key');
    const waiting = rejectionOf(leases.acquire('key'));
    await leases.close();
    errors.push(await waiting, await rejectionOf(leases.acquire('key')));
    const keys = [[5], ['key'], ['key'], ['key'], []];
    expect([...spans]).toEqual([
      ...keys.map((shown, i) => [{ ...COMMON, keys: shown, error: errors[i] }, FAILED_PROMISE]),
      [{ ...COMMON, result: held }, PROMISE],
      [{ ...COMMON, error: errors[5] }, FAILED_PROMISE],
      [{ ...COMMON, error: errors[6] }, FAILED_PROMISE],
    ]);
    expect(errors[6]).toMatchObject({ code: 'ERR_LEASE_MANAGER_CLOSED' });
  });

  it('does not lose a lease if a subscriber throws', async () => {
    const leases = managerOver(new MemoryLeaseStore());
    const errors: unknown[] = [];
    const before = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', (error) => errors.push(error));
    onTestFinished(() => {
      process.removeAllListeners('uncaughtException');
      for (const listener of before) process.on('uncaughtException', listener);
    });
    const spans = listenToSpans();
    spans.set = () => {
      throw new Error('from the subscriber');
    };
    const lease = await leases.acquire('key');
    expect(lease.held).toBe(true);
    expect(await lease.release()).toBe(true);
    await turns();
    expect(errors).toHaveLength(PROMISE.length);
  });
});
