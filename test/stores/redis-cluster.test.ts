import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';
import { redisClients, redisClusterClients } from '../support/redis-clients.mjs';
import { RedisCluster } from '../support/redis-cluster.mjs';
import { REDIS_ADVICE, redisCommand } from '../support/redis-server.mjs';
import { reportMissing } from '../support/requirements.js';
import { rejectionOf } from '../support/waiting.js';
import type { Connection } from './redis-setup.js';

if (redisCommand === undefined) {
  reportMissing('the Redis store on a cluster', 'redis-server', REDIS_ADVICE);
} else {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await RedisCluster.start();
  });
  afterAll(() => cluster.stop());

  describe.each(['ioredis', 'iovalkey'] as const)('%s on a cluster, with automatic pipelining', (name) => {
    it('runs scripts for keys of several nodes in one turn', async () => {
      await cluster.commandAll('FLUSHALL');
      const { client, close } = await redisClusterClients[name](cluster.ports[0]!, {
        enableAutoPipelining: true,
      });
      onTestFinished(() => close());
      const store = redisLeaseStore({ client });
      const manager = new LeaseManager({ store });
      const keys = Array.from({ length: 40 }, (_, i) => `job:${i}`);
      const leases = await Promise.all(keys.map((key) => manager.acquire(key, { timeout: 30_000 })));
      expect(await Promise.all(leases.map((lease) => lease.renew()))).not.toContain(false);
      await cluster.commandAll('SCRIPT', 'FLUSH');
      expect(await Promise.all(leases.map((lease) => lease.release()))).not.toContain(false);
      await store.close();
    });
  });

  const otherNode = {
    code: 'ERR_REDIS_CLUSTER',
    name: 'LockError',
    message: expect.stringMatching(/another node .* pass a client for clusters/) as string,
  };

  describe.each(Object.keys(redisClients))(
    '%s for a single server, connected to one of three nodes',
    (name) => {
      /** A store, and two keys: one is on the node of the client, and one on another node. */
      async function scene(): Promise<{
        store: ReturnType<typeof redisLeaseStore>;
        here: string;
        there: string;
      }> {
        await cluster.commandAll('FLUSHALL');
        const { client, close } = await redisClients[name as keyof typeof redisClients](cluster.ports[0]!);
        const store = redisLeaseStore({ client });
        onTestFinished(async () => {
          await store.close();
          close();
        });
        let here: string | undefined;
        let there: string | undefined;
        for (let i = 0; here === undefined || there === undefined; i++) {
          const key = `job:${i}`;
          const token = await store.tryAcquire(key, 'a', 60_000).catch((error: unknown) => error);
          if (typeof token === 'bigint') {
            await store.release(key, 'a');
            here = key;
          } else {
            expect(token).toMatchObject(otherNode);
            there = key;
          }
        }
        return { store, here, there };
      }

      it('rejects a key of another node at once, instead of when the acquisition times out', async () => {
        const { store, here, there } = await scene();
        const manager = new LeaseManager({ store });
        expect(await rejectionOf(manager.acquire(there, { timeout: 50_000 }))).toMatchObject(otherNode);
        expect(await rejectionOf(manager.tryAcquire(there))).toMatchObject(otherNode);
        expect(await rejectionOf(store.renew(there, 'a', 1000))).toMatchObject(otherNode);
        expect(await rejectionOf(store.release(there, 'a'))).toMatchObject(otherNode);
        expect(await rejectionOf(store.inspect(there))).toMatchObject(otherNode);
        const lease = await manager.acquire(here);
        expect(await lease.release()).toBe(true);
      });

      it('holds nothing if one of several keys is on another node', async () => {
        const { store, here, there } = await scene();
        const manager = new LeaseManager({ store });
        const leaseless = (await cluster.commandAll('KEYS', 'stripelock:*:*')).join();
        expect(await rejectionOf(manager.acquire([here, there], { timeout: 50_000 }))).toMatchObject(
          otherNode,
        );
        expect((await cluster.commandAll('KEYS', 'stripelock:*:*')).join()).toBe(leaseless);
      });
    },
  );

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

    it('holds as many slots of a limit as there are, on several nodes, and hands a released one on', async () => {
      await cluster.commandAll('FLUSHALL');
      const [holder, other] = [
        new LeaseManager({ store: await storeOf() }),
        new LeaseManager({ store: await storeOf() }),
      ];
      const limit = 8;
      const held = await Promise.all(
        Array.from({ length: limit }, () => holder.acquire('permit', { limit, timeout: 50_000 })),
      );
      expect(held.map(({ slot }) => slot).sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
      const nodes = (await cluster.commandAll('KEYS', '*:permit*')).filter((reply) =>
        reply.includes('permit'),
      );
      expect(nodes.length).toBeGreaterThan(1);
      expect(await other.tryAcquire('permit', { limit })).toBeUndefined();
      const waiting = other.acquire('permit', { limit, timeout: 50_000 });
      const [released, ...rest] = held;
      expect(await released!.release()).toBe(true);
      const lease = await waiting;
      expect(lease.slot).toBe(released!.slot);
      expect(await lease.renew()).toBe(true);
      for (const one of [lease, ...rest]) expect(await one.release()).toBe(true);
      expect(await other.tryAcquire('permit', { limit })).toBeDefined();
      await other.close();
    });

    it('lists the leases of all nodes in one order', async () => {
      await cluster.commandAll('FLUSHALL');
      const store = await storeOf();
      const keys = Array.from({ length: 60 }, (_, i) => `job:${i + 10}`);
      for (const key of keys) await store.tryAcquire(key, 'a', 60_000);
      expect((await store.list()).map(({ key }) => key)).toEqual(keys);
      expect((await store.list({ prefix: 'job:1', limit: 3 })).map(({ key }) => key)).toEqual(
        keys.slice(0, 3),
      );
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
