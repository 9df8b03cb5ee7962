import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';
import { redisClusterClients } from '../support/redis-clients.mjs';
import { RedisCluster } from '../support/redis-cluster.mjs';
import { REDIS_ADVICE, redisCommand } from '../support/redis-server.mjs';
import { reportMissing } from '../support/requirements.js';
import type { Connection } from './redis-setup.js';

if (redisCommand === undefined) {
  reportMissing('the Redis store on a cluster', 'redis-server', REDIS_ADVICE);
} else {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await RedisCluster.start();
  });
  afterAll(() => cluster.stop());

  const clients = Object.entries(redisClusterClients) as [string, (port: number) => Promise<Connection>][];

  describe.each(clients)('%s on a cluster of three', (name, connect) => {
    const storeOf = async (): Promise<ReturnType<typeof redisLeaseStore>> => {
      const { client, close } = await connect(cluster.ports[0]!);
      const store = redisLeaseStore({ client });
      onTestFinished(async () => {
        await store.close();
        close();
      });
      return store;
    };

    it('spreads leases over the nodes, and keeps everything about a lease in one slot', async () => {
      await cluster.commandAll('FLUSHALL');
      const store = await storeOf();
      const other = new LeaseManager({ store: await storeOf() });
      const keys = Array.from({ length: 40 }, (_, i) => `job:${i}`);
      for (const key of keys) expect(await store.tryAcquire(key, 'a', 60_000)).toBeTypeOf('bigint');
      const waiting = keys.map((key) => other.acquire(key, { timeout: 60_000 }));
      const all = async (): Promise<string[]> => (await cluster.commandAll('KEYS', '*')).map(String);
      // A lease, its bucket, and its waiters.
      await expect
        .poll(async () => (await all()).join().match(/\}\?job:/g)?.length, { timeout: 20_000 })
        .toBe(keys.length);
      for (const onNode of await all()) expect(onNode).toContain('}:job:');
      for (const key of keys) {
        const holds = (await all()).map((onNode) =>
          onNode.split('\r\n').filter((line) => line.endsWith(`}:${key}`) || line.endsWith(`}?${key}`)),
        );
        expect(holds.filter((names) => names.length > 0).map((names) => names.length)).toEqual([2]);
      }
      for (const key of keys) {
        expect(await store.renew(key, 'a', 60_000)).toBe(true);
        expect((await store.inspect(key))?.owner).toBe('a');
        expect(await store.release(key, 'a')).toBe(true);
      }
      for (const lease of await Promise.all(waiting)) expect(await lease.release()).toBe(true);
    });

    it(`wakes waiters on ${name}, whichever node publishes the release`, async () => {
      const holder = new LeaseManager({ store: await storeOf() });
      const waiter = new LeaseManager({
        store: await storeOf(),
        backoff: { initial: 20_000, max: 20_000, jitter: 0 },
      });
      // The keys are on different nodes, and each waiter is notified by only one node.
      for (const key of ['a', 'b', 'c', 'd', 'e', 'f']) {
        const held = await holder.acquire(key);
        const waiting = waiter.acquire(key, { timeout: 50_000 });
        const waits = async (): Promise<string> => (await cluster.commandAll('KEYS', `*?${key}`)).join();
        await expect.poll(waits, { timeout: 20_000 }).toContain(`}?${key}`);
        const released = performance.now();
        await held.release();
        await (await waiting).release();
        // Far below the first pause between two attempts.
        expect(performance.now() - released).toBeLessThan(5000);
      }
      await waiter.close();
    });
  });
}
