import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';
import { Proxy } from '../support/proxy.mjs';
import { redisClusterClients, redisSentinelClients } from '../support/redis-clients.mjs';
import { RedisCluster } from '../support/redis-cluster.mjs';
import { RedisSentinel } from '../support/redis-sentinel.mjs';
import { cutReplication, REDIS_ADVICE, redisCommand } from '../support/redis-server.mjs';
import { command } from '../support/redis-wire.mjs';
import { reportMissing } from '../support/requirements.js';
import { rejectionOf } from '../support/waiting.js';
import { PATIENT, type Connection, type RedisStore } from './redis-setup.js';

/** Far longer than a fail-over takes. */
const PATIENCE = { timeout: 50_000 };

const kinds = [
  [
    'a cluster',
    () => RedisCluster.start({ hasReplica: true }),
    (of: RedisCluster) => of.ports[1]!,
    redisClusterClients,
  ],
  ['Sentinel', () => RedisSentinel.start(), (of: RedisSentinel) => of.port, redisSentinelClients],
] as const;

if (redisCommand === undefined) {
  reportMissing('fail-over of Redis Cluster and of Sentinel', 'redis-server', REDIS_ADVICE);
} else {
  describe.each(kinds)('when a replica takes over in %s', (_kind, start, portOf, libraries) => {
    let servers: RedisCluster | RedisSentinel;
    beforeAll(async () => {
      servers = await start();
    });
    afterAll(() => servers.stop());

    describe.each(Object.entries<(port: number) => Promise<Connection>>(libraries))(
      '%s',
      (_library, connect) => {
        let store: RedisStore;
        let other: RedisStore;

        const newStore = async (): Promise<RedisStore> => {
          const { client, close } = await connect(portOf(servers as never));
          const made = redisLeaseStore({ client, timeout: 5000 });
          onTestFinished(async () => {
            await made.close();
            close();
          });
          return made;
        };
        const managerOn = (store: RedisStore, backoff = {}): LeaseManager => {
          const manager = new LeaseManager({ store, backoff, ttl: 120_000 });
          onTestFinished(() => manager.close());
          return manager;
        };
        const namesOf = (key: string): Promise<string> => servers.primary.command('KEYS', `*[:?]${key}`);

        beforeEach(async () => {
          await servers.primary.command('FLUSHALL');
          store = await newStore();
          other = await newStore();
        });

        /** Keys that the server which fails has, and not another one of the cluster. */
        async function keysOfPrimary(count: number): Promise<string[]> {
          const keys: string[] = [];
          for (let i = 0; keys.length < count; i++) {
            await store.tryAcquire(`job:${i}`, 'a', 60_000);
            if ((await namesOf(`job:${i}`)) !== '*0') keys.push(`job:${i}`);
            await store.release(`job:${i}`, 'a');
          }
          return keys;
        }

        /** Returns once another acquisition is recorded as waiting. */
        const isAwaited = (key: string): Promise<void> =>
          expect.poll(() => namesOf(key), { timeout: 20_000 }).toContain(`?${key}`);

        /** Returns once the replica has a lease, or the list of its waiters. */
        const isCopied = (name: string): Promise<void> =>
          expect.poll(() => servers.replica.command('KEYS', '*'), { timeout: 20_000 }).toContain(name);

        /** The channels on which stores listen, at all servers. */
        async function channels(): Promise<string> {
          const at = (port: number): Promise<string> => command(port, 'PUBSUB', 'CHANNELS', 'stripelock:*');
          return (await Promise.all(servers.ports.map((port) => at(port).catch(() => '')))).join();
        }

        const failOver = async (): Promise<void> => {
          await servers.failOver();
          onTestFinished(() => servers.repair());
        };

        it('a holder learns at its next renewal that its lease was lost, a waiter gets it with a higher token', async () => {
          const [kept, lost] = (await keysOfPrimary(2)) as [string, string];
          const holder = managerOn(store);
          const keptLease = await holder.acquire(kept);
          await isCopied(kept);
          await cutReplication(servers.primary);
          const lostLease = await holder.acquire(lost);
          const waiting = managerOn(other).acquire(lost, PATIENCE);
          await isAwaited(lost);

          await failOver();

          const granted = await waiting;
          expect(granted.token).toBeGreaterThan(lostLease.token);
          // It has asked nothing since.
          expect(lostLease.held).toBe(true);
          // The client may not have found the new primary yet.
          await expect.poll(() => lostLease.renew().catch(() => undefined), PATIENCE).toBe(false);
          expect(lostLease.signal.reason).toMatchObject({ code: 'ERR_LEASE_LOST', key: lost });
          expect(await keptLease.renew()).toBe(true);
          expect(await granted.renew()).toBe(true);
          expect(await granted.release()).toBe(true);
          expect(await keptLease.release()).toBe(true);
        });

        it('a waiter whose notifications came from the lost server is woken by releases on the new one', async () => {
          const keys = (await keysOfPrimary(3)) as [string, string, string];
          const holder = managerOn(store);
          const waiter = managerOn(other, PATIENT);
          const held = await Promise.all(keys.map((key) => holder.acquire(key)));
          const waiting = keys.map((key) => waiter.acquire(key, PATIENCE));
          for (const key of keys) {
            await isAwaited(key);
            await isCopied(`?${key}`);
          }

          await failOver();

          await expect.poll(() => held[0]!.renew().catch(() => undefined), PATIENCE).toBe(true);
          // A notified waiter whose request fails would pause.
          const isReached = (): Promise<unknown> =>
            other.inspect(keys[0]).then(
              () => true,
              () => false,
            );
          await expect.poll(isReached, PATIENCE).toBe(true);
          await expect.poll(() => channels(), PATIENCE).toContain('stripelock:waiter:');
          const released = performance.now();
          for (const lease of held) expect(await lease.release()).toBe(true);
          for (const lease of await Promise.all(waiting)) await lease.release();
          // Far below the first pause between two attempts.
          expect(performance.now() - released).toBeLessThan(10_000);
        });
      },
    );
  });

  describe('through Sentinel', () => {
    let servers: RedisSentinel;
    beforeAll(async () => {
      servers = await RedisSentinel.start();
    });
    afterAll(() => servers.stop());

    it.each(Object.keys(redisSentinelClients) as (keyof typeof redisSentinelClients)[])(
      'a release is not said to have found nothing if its answer was lost: %s',
      async (library) => {
        const proxy = await Proxy.to(servers.primary.port);
        const { client, close } = await redisSentinelClients[library](servers.port, {
          [`127.0.0.1:${servers.primary.port}`]: { host: '127.0.0.1', port: proxy.port },
        });
        const store = redisLeaseStore({ client, timeout: 20_000 });
        onTestFinished(async () => {
          await store.close();
          close();
          await proxy.close();
        });
        const isHeld = (): Promise<string> => servers.primary.command('EXISTS', 'stripelock:{108}:key');
        // The server knows the script from now on.
        await store.release('key', 'a');
        await store.tryAcquire('key', 'a', 60_000);
        proxy.delay = 60_000;
        const lost = rejectionOf(store.release('key', 'a'));
        await expect.poll(isHeld, { interval: 5 }).toBe(':0');
        proxy.cut();
        proxy.delay = 0;
        expect(await lost).toMatchObject({ code: 'ERR_LEASE_STORE' });
        // The client has connected again.
        expect(await store.release('key', 'a')).toBe(false);
      },
    );
  });
}
