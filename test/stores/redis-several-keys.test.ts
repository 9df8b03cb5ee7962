import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';
import { redisClients, redisClusterClients } from '../support/redis-clients.mjs';
import { RedisCluster, startNode } from '../support/redis-cluster.mjs';
import type { RedisServer } from '../support/redis-server.mjs';
import { rejectionOf } from '../support/waiting.js';
import { RedisScene, redisLibraries, type RedisStore } from './redis-setup.js';
import { ownersOf } from '../leases/several-stores.js';

const KEYS = ['a', 'b', 'c', 'd', 'e', 'f'];
const FREE = KEYS.map(() => undefined);
const backoff = { initial: 5, max: 50 };

/** Two keys of one bucket. */
function neighbours(store: RedisStore): [string, string] {
  for (let i = 1; ; i++) if (store.inOneStep!(['job:0', `job:${i}`])) return ['job:0', `job:${i}`];
}

/** How many scripts the server has run. */
async function scriptsRun(server: RedisServer): Promise<number> {
  const stats = await server.command('INFO', 'commandstats');
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

describe.each(redisLibraries)('several keys in Redis, with %s', (library) => {
  const scene = new RedisScene(library);

  it('take one script for each operation', async () => {
    const manager = new LeaseManager({ store: scene.store });
    await (await manager.acquire(KEYS)).release();
    await scene.command('SCRIPT', 'LOAD', 'return 1');
    const lease = await manager.acquire(KEYS, { timeout: 30_000 });
    const before = await scriptsRun(scene.server);
    await lease.renew();
    await lease.release();
    await (await manager.acquire(KEYS)).release();
    expect((await scriptsRun(scene.server)) - before).toBeLessThanOrEqual(5);
  });

  it('are released to the waiters for one of them', async () => {
    const held = await new LeaseManager({ store: scene.store }).acquire(KEYS);
    const { client } = await scene.connect();
    const other = new LeaseManager({
      store: scene.storeWith({ client }),
      backoff: { initial: 20_000, max: 20_000, jitter: 0 },
    });
    const waiting = KEYS.map((key) => other.acquire(key, { timeout: 60_000 }));
    await expect
      .poll(async () => (await scene.command('KEYS', '*[?]*')).match(/\?[a-f]/g)?.length, { timeout: 20_000 })
      .toBe(KEYS.length);
    const released = performance.now();
    await held.release();
    for (const lease of await Promise.all(waiting)) await lease.release();
    // Far below the first pause between two attempts.
    expect(performance.now() - released).toBeLessThan(10_000);
    await other.close();
  });

  it('have tokens above those that this client remembers, also if the server has lost its own', async () => {
    const first = await scene.store.tryAcquireAll(KEYS, 'me', 60_000);
    const later = BigInt(Date.now() + 3_600_000) * 1_000_000n;
    // Pretends that the server's clock showed an hour more.
    const names = (await scene.command('KEYS', 'stripelock:{*}'))
      .split('\r\n')
      .filter((name) => name.endsWith('}'));
    for (const name of names) await scene.command('SET', name, String(later / 1000n));
    await scene.store.releaseAll(KEYS, 'me');
    const second = await scene.store.tryAcquireAll(KEYS, 'me', 60_000);
    await scene.command('FLUSHALL');
    const third = await scene.store.tryAcquireAll(KEYS, 'me', 60_000);
    const [one, two, three] = [first, second, third] as [bigint[], bigint[], bigint[]];
    expect(two.every((token, i) => token > later && token > one[i]!)).toBe(true);
    expect(three.every((token, i) => token > two[i]!)).toBe(true);
  });

  it('are left alone if something else is at one of them', async () => {
    await scene.store.tryAcquire('b', 'me', 60_000);
    const name = (await scene.command('KEYS', '*:b')).split('\r\n').find((line) => line.endsWith(':b'))!;
    for (const value of [
      ['SET', name, 'foreign'],
      ['RPUSH', name, 'foreign'],
    ] as const) {
      await scene.command('DEL', name);
      await scene.command(...value);
      expect(await rejectionOf(scene.store.tryAcquireAll(KEYS, 'me', 60_000))).toMatchObject({
        code: 'ERR_LEASE_STORE',
      });
      expect((await scene.command('KEYS', '*:a')).includes(':a')).toBe(false);
    }
  });

  it('that are granted after the time limit are given back', async () => {
    const store = scene.storeWith({ timeout: 50 });
    scene.server.signal('SIGSTOP');
    const asked = store.tryAcquireAll(KEYS, 'me', 60_000);
    expect(await rejectionOf(asked)).toMatchObject({ code: 'ERR_LEASE_STORE' });
    scene.server.signal('SIGCONT');
    await expect.poll(() => ownersOf(scene.store, KEYS), { timeout: 20_000 }).toEqual(FREE);
  });
});

describe.skipIf(redisLibraries.length === 0)('several keys on a cluster', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await RedisCluster.start();
  });
  afterAll(() => cluster.stop());

  it.each(Object.keys(redisClusterClients))(
    'take one step within a bucket, else one after the other: %s',
    async (name) => {
      await cluster.commandAll('FLUSHALL');
      const connect = redisClusterClients[name as keyof typeof redisClusterClients];
      const { client, close } = await connect(cluster.ports[0]!);
      const store = redisLeaseStore({ client });
      onTestFinished(async () => {
        await store.close();
        close();
      });
      expect(store.inOneStep!(KEYS)).toBe(false);
      const together = await store.tryAcquireAll(neighbours(store), 'me', 60_000);
      expect((together as bigint[]).length).toBe(2);
      const manager = new LeaseManager({ store, backoff });
      const lease = await manager.acquire(KEYS);
      expect(await ownersOf(store, KEYS)).toEqual(KEYS.map(() => lease.holder));
      expect(await manager.tryAcquire(['g', 'f'])).toBeUndefined();
      expect(await ownersOf(store, ['g'])).toEqual([undefined]);
      expect(await lease.renew()).toBe(true);
      expect(await lease.release()).toBe(true);
      expect(await ownersOf(store, KEYS)).toEqual(FREE);
    },
  );

  it('work for a client that does not know that it talks to a cluster', async () => {
    const { server } = await startNode();
    onTestFinished(() => server.stop());
    await server.command('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383);
    await expect
      .poll(() => server.command('CLUSTER', 'INFO'), { timeout: 20_000 })
      .toContain('cluster_state:ok');
    const { client, close } = await redisClients.ioredis(server.port);
    onTestFinished(() => close());
    const store = redisLeaseStore({ client });
    expect(store.inOneStep!(KEYS)).toBe(true);
    const lease = await new LeaseManager({ store, backoff }).acquire(KEYS, { timeout: 30_000 });
    expect(store.inOneStep!(KEYS)).toBe(false);
    expect(await ownersOf(store, KEYS)).toEqual(KEYS.map(() => lease.holder));
    expect(await lease.release()).toBe(true);
  });
});
