import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { redisLeaseStore, type RedisLeaseStoreOptions } from 'stripelock/redis';
import { leaseStoreContract } from 'stripelock/testing';
import { connectGlide, hasGlide } from '../support/glide-clients.mjs';
import { Proxy } from '../support/proxy.mjs';
import { RECIPES_ADVICE } from '../support/recipe-packages.mjs';
import { RedisCluster } from '../support/redis-cluster.mjs';
import { REDIS_ADVICE, redisCommand, RedisServer } from '../support/redis-server.mjs';
import { command } from '../support/redis-wire.mjs';
import { reportMissing } from '../support/requirements.js';
import { rejectionOf } from '../support/waiting.js';
import { PATIENT, type RedisStore } from './redis-setup.js';

const LEASE = 'stripelock:{108}:key';

type Options = Partial<RedisLeaseStoreOptions>;

/** A store on a client of that class. It ends with the test. */
async function storeOn(
  name: 'GlideClient' | 'GlideClusterClient',
  port: number,
  options: Options = {},
): Promise<RedisStore> {
  const { client, close } = await connectGlide(name, port);
  const store = redisLeaseStore({ client, timeout: 20_000, ...options });
  onTestFinished(async () => {
    await store.close();
    close();
  });
  return store;
}

function moduleFor(name: string, port: number): URL {
  const module = new URL('../workers/glide-client.mjs', import.meta.url);
  module.searchParams.set('class', name);
  module.searchParams.set('port', String(port));
  return module;
}

if (redisCommand === undefined) {
  reportMissing('the Redis store on Valkey GLIDE', 'redis-server', REDIS_ADVICE);
} else if (!hasGlide) {
  reportMissing('the Redis store on Valkey GLIDE', '@valkey/valkey-glide', RECIPES_ADVICE);
} else {
  let server: RedisServer;
  let cluster: RedisCluster;
  beforeAll(async () => {
    [server, cluster] = await Promise.all([RedisServer.start(), RedisCluster.start()]);
  });
  afterAll(() => Promise.all([server.stop(), cluster.stop()]));
  const flush = (): Promise<unknown> =>
    Promise.all([server.command('FLUSHALL'), cluster.commandAll('FLUSHALL')]);

  const framework = { describe: describe.concurrent, it, expect };
  let stores = 0;
  const kinds = [
    ['GlideClient', () => [server.port]],
    ['GlideClusterClient', () => cluster.ports],
  ] as const;

  for (const [name, portsOf] of kinds) {
    leaseStoreContract(framework, `Redis store on ${name}, two clients`, async () => {
      const prefix = `test ${++stores}:`;
      const clients = await Promise.all([
        connectGlide(name, portsOf()[0]!),
        connectGlide(name, portsOf()[0]!),
      ]);
      const [store, peer] = clients.map(({ client }) => redisLeaseStore({ client, prefix }));
      return {
        store: store!,
        peers: [peer!],
        keepsInfo: true,
        reportsAbandonment: true,
        async dispose() {
          await store!.close();
          await peer!.close();
          for (const { close } of clients) close();
        },
      };
    });

    describe(`the Redis store on ${name}`, () => {
      beforeEach(flush);

      it('wakes a waiter through a client that the clientModule makes', async () => {
        const [port] = portsOf() as [number];
        const holder = new LeaseManager({ store: await storeOn(name, port) });
        const clientModule = moduleFor(name, port);
        const waiter = new LeaseManager({
          store: await storeOn(name, port, { clientModule }),
          backoff: PATIENT,
        });
        for (const key of ['a', 'b', 'c']) {
          const held = await holder.acquire(key);
          const waiting = waiter.acquire(key, { timeout: 50_000 });
          const waits = async (): Promise<string> =>
            (await Promise.all(portsOf().map((at) => command(at, 'KEYS', `*[?]${key}`)))).join();
          await expect.poll(waits, { timeout: 20_000 }).toContain(`?${key}`);
          const released = performance.now();
          await held.release();
          await (await waiting).release();
          // Far below the first pause between two attempts.
          expect(performance.now() - released).toBeLessThan(10_000);
        }
        await waiter.close();
      });

      it('lets a waiter poll if there is no clientModule', async () => {
        const [port] = portsOf() as [number];
        const held = await new LeaseManager({ store: await storeOn(name, port) }).acquire('key');
        const waiter = new LeaseManager({ store: await storeOn(name, port) });
        const waiting = waiter.acquire('key', { timeout: 50_000 });
        await held.release();
        expect(await (await waiting).release()).toBe(true);
      });

      it('holds several keys, and slots of a limit, that are on different nodes', async () => {
        const store = await storeOn(name, portsOf()[0]!);
        const manager = new LeaseManager({ store });
        const keys = ['a', 'b', 'c', 'd', 'e', 'f'];
        const lease = await manager.acquire(keys);
        expect(await manager.tryAcquire(['f', 'g'])).toBeUndefined();
        expect(await store.inspect('g')).toBeUndefined();
        expect(await lease.renew()).toBe(true);
        expect(await lease.release()).toBe(true);
        const permits = await Promise.all([1, 2, 3].map(() => manager.acquire('permit', { limit: 3 })));
        expect(await manager.tryAcquire('permit', { limit: 3 })).toBeUndefined();
        for (const permit of permits) expect(await permit.release()).toBe(true);
      });

      it('lists more leases than one request finds', async () => {
        const store = await storeOn(name, portsOf()[0]!);
        const keys = Array.from({ length: 3000 }, (_, i) => `job:${String(i).padStart(4, '0')}`);
        // The client has at most 1000 pending requests.
        for (let i = 0; i < keys.length; i += 500) {
          await Promise.all(keys.slice(i, i + 500).map((key) => store.tryAcquire(key, 'a', 600_000)));
        }
        expect((await store.list({ limit: 5000 })).map(({ key }) => key)).toEqual(keys);
      });
    });
  }

  describe('the Redis store on GlideClient', () => {
    beforeEach(flush);

    it('rejects a key of another node of a cluster at once', async () => {
      const manager = new LeaseManager({ store: await storeOn('GlideClient', cluster.ports[0]!) });
      const keys = Array.from({ length: 20 }, (_, i) => `job:${i}`);
      const results = await Promise.allSettled(keys.map((key) => manager.acquire(key, { timeout: 50_000 })));
      const reasons = results
        .filter((result) => result.status === 'rejected')
        .map(({ reason }) => reason as unknown);
      expect(reasons.length).toBeGreaterThan(0);
      for (const reason of reasons) expect(reason).toMatchObject({ code: 'ERR_REDIS_CLUSTER' });
      expect(await rejectionOf(manager.acquire(keys, { timeout: 50_000 }))).toMatchObject({
        code: 'ERR_REDIS_CLUSTER',
      });
    });

    it('lists from the primary if it reads from replicas', async () => {
      const replica = await RedisServer.start();
      onTestFinished(() => replica.stop());
      await replica.command('REPLICAOF', '127.0.0.1', String(server.port));
      await expect.poll(() => replica.command('ROLE'), { timeout: 30_000 }).toMatch(/\bconnected\b/);
      const { client, close } = await connectGlide('GlideClient', server.port, {
        addresses: [server, replica].map(({ port }) => ({ host: '127.0.0.1', port })),
        readFrom: 'preferReplica',
      });
      onTestFinished(close);
      const store = redisLeaseStore({ client, timeout: 20_000 });
      await store.tryAcquire('key', 'a', 600_000);
      expect((await store.list()).map(({ key }) => key)).toEqual(['key']);
      expect(await replica.command('INFO', 'commandstats')).not.toMatch(/cmdstat_scan/);
    });

    it('fails a waiting acquisition at once if the server denies the script', async () => {
      const manager = new LeaseManager({ store: await storeOn('GlideClient', server.port) });
      await server.command('ACL', 'SETUSER', 'default', '-evalsha');
      const error = await rejectionOf(manager.acquire('key', { timeout: 60_000 }));
      await server.command('ACL', 'SETUSER', 'default', '+@all');
      expect(error).toMatchObject({ code: 'ERR_LEASE_STORE_DENIED' });
    });

    it('keeps working after its scripts were flushed', async () => {
      const store = await storeOn('GlideClient', server.port);
      await store.tryAcquire('key', 'a', 60_000);
      await server.command('SCRIPT', 'FLUSH');
      expect(await store.renew('key', 'a', 60_000)).toBe(true);
      expect(await store.release('key', 'a')).toBe(true);
    });

    it('never says that nothing was held if the connection is cut after the server has executed a release', async () => {
      const proxy = await Proxy.to(server.port);
      onTestFinished(() => proxy.close());
      const store = await storeOn('GlideClient', proxy.port);
      await store.release('key', 'a');
      await store.tryAcquire('key', 'a', 60_000);
      proxy.delay = 60_000;
      const lost = rejectionOf(store.release('key', 'a'));
      await expect.poll(() => server.command('EXISTS', LEASE), { interval: 5 }).toBe(':0');
      proxy.cut();
      proxy.delay = 0;
      expect(await lost).toMatchObject({ code: 'ERR_LEASE_STORE' });
      await expect.poll(() => store.release('key', 'a').catch(() => undefined)).toBe(false);
    });
  });
}
