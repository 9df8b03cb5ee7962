import { describe, expect, it } from 'vitest';
import {
  FencingGate,
  KeyedLock,
  LeaseManager,
  LockTimeoutError,
  MemoryLeaseStore,
  StripedLock,
  type LeaseStore,
} from 'stripelock';
import { dynamodbLeaseStore } from 'stripelock/dynamodb';
import { etcdLeaseStore } from 'stripelock/etcd';
import { mongodbLeaseStore } from 'stripelock/mongodb';
import { mysqlLeaseStore } from 'stripelock/mysql';
import { postgresLeaseStore } from 'stripelock/postgres';
import { redisLeaseStore } from 'stripelock/redis';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { leaseStoreContract } from 'stripelock/testing';
import { LockManager } from 'stripelock/web-locks';
import { rejectionOf, thrownBy } from '../support/waiting.js';

const unknown = (text: string): unknown =>
  expect.objectContaining({
    name: 'TypeError',
    code: 'ERR_INVALID_ARG_TYPE',
    message: expect.stringContaining(text) as string,
  });

const endpoints = ['http://127.0.0.1:1'];
const made: readonly [what: string, make: (options: never) => unknown, options: object, says: string][] = [
  [
    'StripedLock',
    (of) => new StripedLock(of),
    { timout: 5 },
    'options.timout is not an option: did you mean options.timeout?',
  ],
  ['StripedLock', (of) => new StripedLock(of), { Stripe: undefined }, 'did you mean options.stripes?'],
  ['StripedLock', (of) => new StripedLock(of), { capacity: 5 }, 'are stripes, timeout, name, engine, trace'],
  ['KeyedLock', (of) => new KeyedLock(of), { limt: 5 }, 'did you mean options.limit?'],
  ['KeyedLock', (of) => new KeyedLock(of), { constructor: 5 }, 'options.constructor is not'],
  ['LockManager', (of) => new LockManager(of), { nam: '' }, 'did you mean options.name?'],
  ['FencingGate', (of) => new FencingGate(of), { capactiy: 5 }, 'did you mean options.capacity?'],
  ['MemoryLeaseStore', (of) => new MemoryLeaseStore(of), { clocks: 5 }, 'did you mean options.clock?'],
  ['LeaseManager', (of) => new LeaseManager(of), { ttlMs: 5 }, 'did you mean options.ttl?'],
  ['LeaseManager', (of) => new LeaseManager(of), { url: '' }, 'the options are ttl, renew'],
  ['LeaseManager', (of) => new LeaseManager(of), { renew: { evry: 5 } }, 'options.renew.evry'],
  ['LeaseManager', (of) => new LeaseManager(of), { backoff: { maximum: 5 } }, 'options.backoff.max?'],
  ['LeaseManager', (of) => new LeaseManager(of), { warning: { cal: 5 } }, 'options.warning.call?'],
  ['sqliteLeaseStore', (of) => sqliteLeaseStore(of), { path: ':memory:', tabel: '' }, 'options.table?'],
  [
    'redisLeaseStore',
    (of) => redisLeaseStore(of),
    { url: 'redis://127.0.0.1:1', prefx: '' },
    'options.prefix?',
  ],
  ['postgresLeaseStore', (of) => postgresLeaseStore(of), { pool: {}, drifft: 0 }, 'options.drift?'],
  ['mysqlLeaseStore', (of) => mysqlLeaseStore(of), { pool: {}, tabel: '' }, 'options.table?'],
  ['mongodbLeaseStore', (of) => mongodbLeaseStore(of), { db: {}, colection: {} }, 'options.collection?'],
  ['dynamodbLeaseStore', (of) => dynamodbLeaseStore(of), { client: {}, tabel: '' }, 'options.table?'],
  ['etcdLeaseStore', (of) => etcdLeaseStore(of), { endpoints, tsl: {} }, 'options.tsl is not'],
  ['etcdLeaseStore', (of) => etcdLeaseStore(of), { endpoints, tls: { cart: '' } }, 'options.tls.cert?'],
  [
    'etcdLeaseStore',
    (of) => etcdLeaseStore(of),
    { endpoints, credentials: { user: '' } },
    'are username, password',
  ],
];

describe('an option that is unknown, and probably misspelt, is refused with the nearest one', () => {
  it.each(made)('by %s', (_what, make, options, says) => {
    expect(thrownBy(() => make(options as never))).toEqual(unknown(says));
  });

  it('by a lease', async () => {
    const manager = new LeaseManager();
    const options = { maxhold: 5 } as object;
    for (const method of ['acquire', 'tryAcquire'] as const) {
      expect(await rejectionOf(manager[method]('key', options))).toEqual(unknown('options.maxHold?'));
    }
    expect(await rejectionOf(manager.withLease('key', options, () => 5))).toEqual(
      unknown('options.maxHold?'),
    );
    expect(await manager.store.inspect('key')).toBeUndefined();
  });

  it('by the contract of stores, so that it does not leave out what was asked for', async () => {
    const tests: (() => Promise<void>)[] = [];
    const framework = {
      describe: (_: string, define: () => void) => define(),
      it: (_: string, test: () => Promise<void>) => tests.push(test),
    };
    leaseStoreContract(
      framework,
      'a store',
      () => ({ store: {} as LeaseStore, keepInfo: true }) as { store: LeaseStore },
    );
    expect(await rejectionOf(tests[0]!())).toEqual(unknown('the store under test.keepsInfo?'));
  });

  it('by an acquisition that has to wait, which then takes nothing', async () => {
    for (const lock of [new StripedLock(), new KeyedLock(), new KeyedLock({ limit: 2 })]) {
      const guards = Array.from({ length: lock instanceof KeyedLock ? lock.limit : 1 }, () =>
        lock.acquireSync('key'),
      );
      const options = { timout: 5, timeout: 1 };
      for (const keys of ['key', ['other', 'key', 'third']]) {
        expect(thrownBy(() => lock.acquireSync(keys, options))).toEqual(unknown('options.timeout?'));
        expect(await rejectionOf(lock.acquire(keys, options))).toEqual(unknown('options.timeout?'));
        expect(await rejectionOf(lock.withLock(keys, options, () => 5))).toEqual(unknown('options.timeout?'));
        // Known ones may be undefined.
        const known = { mode: undefined, signal: undefined, timeout: 1 } as object;
        expect(await rejectionOf(lock.acquire(keys, known))).toBeInstanceOf(LockTimeoutError);
      }
      for (const guard of guards) guard.release();
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
    }
  });
});
