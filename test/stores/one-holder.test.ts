import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import { LeaseManager, type Lease, type LeaseStore } from 'stripelock';
import { ownersOf } from '../leases/several-stores.js';
import { postgresLibraries, PostgresScene } from './postgres-setup.js';
import { redisLibraries, RedisScene } from './redis-setup.js';

const TTL = 600_000;
const KEYS = Array.from({ length: 20 }, (_, i) => `key ${i}`);
const BAD = 'key 7';

async function leasesOn(store: LeaseStore): Promise<readonly Lease[]> {
  const manager = new LeaseManager({ store, ttl: TTL, renew: false, holder: 'me' });
  return Promise.all(KEYS.map((key) => manager.acquire(key, { timeout: 30_000 })));
}

/** Asks for all at once, and says for which keys that failed. */
async function failuresOf(
  leases: readonly Lease[],
  ask: (lease: Lease) => Promise<boolean>,
): Promise<readonly string[]> {
  const results = await Promise.allSettled(leases.map(ask));
  return KEYS.filter((_, i) => results[i]!.status === 'rejected');
}

describe.skipIf(redisLibraries.length === 0)('leases of one holder in Redis', () => {
  const scene = new RedisScene('ioredis');

  it('are renewed although something else is at the key of one', async () => {
    const leases = await leasesOn(scene.store);
    const name = (await scene.command('KEYS', `*:${BAD}`)).split('\r\n').find((line) => line.endsWith(BAD))!;
    await scene.command('DEL', name);
    await scene.command('HSET', name, 'field', 'value');
    expect(await failuresOf(leases, (lease) => lease.renew())).toEqual([BAD]);
    expect(leases.filter(({ held }) => !held)).toEqual([]);
    // The failed request had freed the keys before the bad one, but its answer does not say so.
    expect(await failuresOf(leases, (lease) => lease.release())).toContain(BAD);
    const others = KEYS.filter((key) => key !== BAD);
    expect(await ownersOf(scene.store, others)).toEqual(others.map(() => undefined));
  });
});

describe.skipIf(postgresLibraries.length === 0)('leases in PostgreSQL', () => {
  const scene = new PostgresScene();

  it('of one holder are renewed and released although the row of one is locked', async () => {
    const table = scene.newTable();
    const pool = await scene.connect('pg', undefined, { max: 3 });
    const leases = await leasesOn(scene.storeOn(pool, { table, timeout: 1500 }));
    const locker = (await scene.connect('pg-client')) as pg.Client;
    await locker.query(`BEGIN; SELECT FROM ${table} WHERE key = '${BAD}' FOR UPDATE`);
    expect(await failuresOf(leases, (lease) => lease.renew())).toEqual([BAD]);
    expect(await failuresOf(leases, (lease) => lease.release())).toEqual([BAD]);
    await locker.query('ROLLBACK');
  });

  it('are all released by close, although thousands share a pool of three connections', async () => {
    const table = scene.newTable();
    const pool = (await scene.connect('pg', undefined, { max: 3 })) as pg.Pool;
    const store = scene.storeOn(pool, { table, timeout: 1000 });
    const manager = new LeaseManager({ store, ttl: TTL });
    for (let i = 0; i < 3000; i += 50) {
      const some = Array.from({ length: 50 }, (_, j) => `key ${i + j}`);
      await Promise.all(some.map((key) => manager.acquire(key, { timeout: 30_000 })));
    }
    await manager.close();
    const { rows } = await pool.query(`SELECT count(*)::int AS left FROM ${table} WHERE expires > now()`);
    expect(rows).toEqual([{ left: 0 }]);
  });
});
