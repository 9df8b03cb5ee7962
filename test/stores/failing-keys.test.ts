import type { Connection } from 'mysql2/promise';
import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import { LeaseManager, type Lease, type LeaseStore } from 'stripelock';
import { ownersOf } from '../leases/several-stores.js';
import { base64, hasEtcd } from '../support/etcd-server.mjs';
import { EtcdScene } from './etcd-setup.js';
import { mysqlPools, MysqlScene } from './mysql-setup.js';
import { postgresLibraries, PostgresScene } from './postgres-setup.js';
import { redisLibraries, RedisScene } from './redis-setup.js';

const TTL = 600_000;
const KEYS = Array.from({ length: 20 }, (_, i) => `key ${i}`);
const BAD = 'key 7';
const OTHERS = KEYS.filter((key) => key !== BAD);
/** A manager with a name has one owner for all of its leases; otherwise each lease has its own. */
const OWNERS = [
  ['one owner', { holder: 'me' }],
  ['many owners', {}],
] as const;

async function leasesOn(store: LeaseStore, own: { holder?: string }): Promise<readonly Lease[]> {
  const manager = new LeaseManager({ store, ttl: TTL, renew: false, ...own });
  return Promise.all(KEYS.map((key) => manager.acquire(key, { timeout: 30_000 })));
}

/** Asks for all at once. Returns the keys for which that failed. */
async function failuresOf(
  leases: readonly Lease[],
  ask: (lease: Lease) => Promise<boolean>,
): Promise<readonly string[]> {
  const results = await Promise.allSettled(leases.map(ask));
  return KEYS.filter((_, i) => results[i]!.status === 'rejected');
}

/** The bad key fails alone, and all others are renewed and freed. */
async function expectBadAlone(store: LeaseStore, leases: readonly Lease[]): Promise<void> {
  expect(await failuresOf(leases, (lease) => lease.renew())).toEqual([BAD]);
  expect(leases.filter(({ held }) => !held)).toEqual([]);
  expect(await failuresOf(leases, (lease) => lease.release())).toEqual([BAD]);
  expect(await ownersOf(store, OTHERS)).toEqual(OTHERS.map(() => undefined));
}

describe.each(OWNERS)('one failing key of many leases, of %s,', (_owners, own) => {
  describe.skipIf(redisLibraries.length === 0)('in Redis', () => {
    const scene = new RedisScene('ioredis');

    it.each([
      ['a hash', (name: string) => scene.command('HSET', name, 'field', 'value')],
      ['a text', (name: string) => scene.command('SET', name, 'no lease')],
    ])('does not affect the others: %s stands there', async (_what, put) => {
      const leases = await leasesOn(scene.store, own);
      const names = (await scene.command('KEYS', `*:${BAD}`)).split('\r\n');
      const name = names.find((line) => line.endsWith(BAD))!;
      await scene.command('DEL', name);
      await put(name);
      await expectBadAlone(scene.store, leases);
    });
  });

  describe.skipIf(postgresLibraries.length === 0)('in PostgreSQL', () => {
    const scene = new PostgresScene();

    it('does not affect the others, nor makes them wait: another client has its row locked', async () => {
      const table = scene.newTable();
      const pool = await scene.connect('pg', undefined, { max: 3 });
      const store = scene.storeOn(pool, { table, timeout: 3000 });
      const leases = await leasesOn(store, own);
      const locker = (await scene.connect('pg-client')) as pg.Client;
      await locker.query(`BEGIN; SELECT FROM ${table} WHERE key = '${BAD}' FOR UPDATE`);
      const bad = leases.find(({ key }) => key === BAD)!;
      let isDone = false;
      const others = leases.filter((lease) => lease !== bad);
      const waiting = bad.renew().finally(() => (isDone = true));
      expect(await Promise.all(others.map((lease) => lease.renew()))).not.toContain(false);
      expect(isDone).toBe(false);
      await expect(waiting).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
      await expectBadAlone(store, leases);
      await locker.query('ROLLBACK');
    });
  });

  describe.each(mysqlPools)('in MySQL, on %s', (library) => {
    const scene = new MysqlScene();

    it('does not affect the others, nor makes them wait: another client has its row locked', async () => {
      const table = scene.newTable();
      const pool = await scene.connect(library, undefined, { max: 3 });
      const store = scene.storeOn(pool, { table, timeout: 3000 });
      const leases = await leasesOn(store, own);
      const locker = (await scene.connect('mysql2/promise connection')) as Connection;
      await locker.query('START TRANSACTION');
      await locker.query(`SELECT * FROM ${table} WHERE name = '${BAD}' FOR UPDATE`);
      const bad = leases.find(({ key }) => key === BAD)!;
      let isDone = false;
      const others = leases.filter((lease) => lease !== bad);
      const waiting = bad.renew().finally(() => (isDone = true));
      expect(await Promise.all(others.map((lease) => lease.renew()))).not.toContain(false);
      expect(isDone).toBe(false);
      await expect(waiting).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
      await expectBadAlone(store, leases);
      await locker.query('ROLLBACK');
    });
  });

  describe.runIf(hasEtcd)('in etcd', () => {
    const scene = new EtcdScene();

    it('does not affect the others: something else stands there', async () => {
      scene.begin();
      const store = scene.store();
      const leases = await leasesOn(store, own);
      const key = base64(`${scene.prefix}lease/${BAD}`);
      await scene.ask('kv/put', { key, value: base64('no lease') });
      await expectBadAlone(store, leases);
    });
  });
});
