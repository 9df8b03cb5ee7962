import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager, MemoryLeaseStore, type Lease, type ListingLeaseStore } from 'stripelock';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { sqliteDrivers } from '../support/sqlite.js';
import { MongodbScene, mongodbDrivers } from './mongodb-setup.js';
import { postgresLibraries, PostgresScene } from './postgres-setup.js';
import { redisLibraries, RedisScene } from './redis-setup.js';
import { SqliteScene } from './sqlite-setup.js';

const COUNT = 6000;
/** Requests at once: more would wait for one another in the client until some of them are late. */
const AT_ONCE = 100;
/** Milliseconds: far longer than the test takes, so no lease expires. */
const TTL = 600_000;

async function expectAllReleased(store: ListingLeaseStore): Promise<void> {
  const manager = new LeaseManager({ store, ttl: TTL });
  const leases: Lease[] = [];
  for (let i = 0; i < COUNT; i += AT_ONCE) {
    const keys = Array.from({ length: AT_ONCE }, (_, j) => `key ${i + j}`);
    leases.push(...(await Promise.all(keys.map((key) => manager.acquire(key, { timeout: 50_000 })))));
  }
  expect(leases.every(({ held }) => held)).toBe(true);
  expect(await store.list({ limit: 10_000 })).toHaveLength(COUNT);
  await manager.close();
  expect(await store.list()).toEqual([]);
}

// etcd-close.test.ts has the test for etcd, where the etcd leases of the keys must end, too.
describe(`close of a manager with ${COUNT} leases leaves none`, { timeout: 120_000 }, () => {
  it('in memory', async () => {
    const store = new MemoryLeaseStore();
    await expectAllReleased(store);
    expect(store.size).toBe(0);
  });

  describe.each(sqliteDrivers.slice(0, 1))('in SQLite', (driver) => {
    const scene = new SqliteScene(driver);

    it('of one file', async () => {
      const store = sqliteLeaseStore({ database: scene.open() });
      onTestFinished(() => store.close());
      await expectAllReleased(store);
    });
  });

  describe.skipIf(redisLibraries.length === 0)('in Redis', () => {
    const scene = new RedisScene('ioredis');

    it('with one connection', async () => {
      await expectAllReleased(scene.store);
    });
  });

  describe.each(mongodbDrivers.slice(0, 1))('in MongoDB', (driver) => {
    const scene = new MongodbScene(driver);

    it('on a stand-in', async () => {
      await expectAllReleased(scene.store);
    });
  });

  describe.skipIf(postgresLibraries.length === 0)('in PostgreSQL', () => {
    const scene = new PostgresScene();

    it('with a pool of three connections', async () => {
      const pool = await scene.connect('pg', undefined, { max: 3 });
      await expectAllReleased(scene.storeOn(pool, { table: scene.newTable(), timeout: 1000 }));
    });
  });
});
