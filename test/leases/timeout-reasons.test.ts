import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager, LockTimeoutError, MemoryLeaseStore } from 'stripelock';
import { postgresLeaseStore } from 'stripelock/postgres';
import { redisLeaseStore } from 'stripelock/redis';
import { redisClients } from '../support/redis-clients.mjs';
import { redisCommand, RedisServer } from '../support/redis-server.mjs';
import { rejectionOf, until } from '../support/waiting.js';
import { FaultyStore, gate } from './faulty-store.js';
import { ways } from './several-stores.js';

const SILENT = /within 30 ms: the store has not answered within \d+ ms$/;

async function messageOf(acquisition: Promise<unknown>): Promise<string> {
  const error = await rejectionOf(acquisition);
  expect(error).toBeInstanceOf(LockTimeoutError);
  return (error as Error).message;
}

describe('the error of an acquisition that times out', () => {
  it.each([{ keys: 'a' }, { keys: ['a', 'b'] }])(
    'does not claim that $keys is held if the store has not answered',
    async ({ keys }) => {
      const store = new FaultyStore();
      const hangs = gate();
      store.before.tryAcquire = hangs.pass;
      const manager = new LeaseManager({ store });
      const all = [1, 2].map(() => messageOf(manager.acquire(keys, { timeout: 30 })));
      for (const message of await Promise.all(all)) expect(message).toMatch(SILENT);
      hangs.open();
      await manager.close();
    },
  );

  it('says of a permit that the store has not answered for all slots', async () => {
    const store = new FaultyStore();
    await store.inner.tryAcquire('a', 'somebody else', 60_000);
    await store.inner.tryAcquire('a#slot1', 'somebody else', 60_000);
    const hangs = gate();
    store.before.tryAcquire = () => (store.count('tryAcquire') > 1 ? hangs.pass() : undefined);
    const manager = new LeaseManager({ store });
    const message = await messageOf(manager.acquire('a', { limit: 2, timeout: 30 }));
    expect(message).toMatch(/the store has not answered for all slots within \d+ ms$/);
    hangs.open();
    await manager.close();
  });

  it('says how long ago the key was held if the store has not answered since', async () => {
    const store = new FaultyStore();
    await store.inner.tryAcquire('a', 'somebody else', 60_000);
    const hangs = gate();
    const manager = new LeaseManager({ store, backoff: { initial: 1, max: 1 } });
    const waiting = manager.acquire('a', { timeout: 1500 });
    await until(() => store.count('tryAcquire') > 1, 'it was refused once');
    store.before.tryAcquire = hangs.pass;
    expect(await messageOf(waiting)).toMatch(
      /: the store said \d+ ms ago that it is held, and has not answered within \d+ ms since$/,
    );
    hangs.open();
    await manager.close();
  });

  it.runIf(redisCommand !== undefined)('does not claim that a key is held if Redis hangs', async () => {
    const server = await RedisServer.start();
    const { client, close } = await redisClients.ioredis(server.port);
    const store = redisLeaseStore({ client });
    onTestFinished(async () => {
      server.signal('SIGCONT');
      await store.close();
      close();
      await server.stop();
    });
    server.signal('SIGSTOP');
    expect(await messageOf(new LeaseManager({ store }).acquire('a', { timeout: 30 }))).toMatch(SILENT);
  });

  it('does not claim that a key is held if a client of PostgreSQL was never connected', async () => {
    const { Client } = (await import('pg')).default;
    const store = postgresLeaseStore({ client: new Client({ host: '127.0.0.1', port: 1 }) });
    expect(await messageOf(new LeaseManager({ store }).acquire('a', { timeout: 30 }))).toMatch(SILENT);
  });

  it.each(ways)('names this same manager if it holds the lease itself, %s', async (_way, make) => {
    const manager = new LeaseManager({ store: make(), ttl: 60_000 });
    const { holder } = await manager.acquire('b');
    for (const timeout of [0, 20]) {
      const by = `is held by this LeaseManager as "${holder}", for `;
      expect(await messageOf(manager.acquire('b', { timeout }))).toContain(`: it ${by}`);
      expect(await messageOf(manager.acquire(['a', 'b'], { timeout }))).toContain(`: key "b" ${by}`);
    }
    const permit = { limit: 2, timeout: 20 };
    await manager.acquire('b#slot1');
    expect(await messageOf(manager.acquire('b', permit))).toMatch(
      /: all 2 slots are held, 2 of them by this LeaseManager$/,
    );
    await manager.close();
  });

  it('names the holder and the remaining time of a lease in memory', async () => {
    const store = new MemoryLeaseStore();
    await new LeaseManager({ store, holder: 'worker 3', ttl: 60_000 }).acquire('a');
    for (const timeout of [0, 20]) {
      const message = await messageOf(new LeaseManager({ store }).acquire('a', { timeout }));
      expect(message).toMatch(/: it is held by "worker 3", for [56]\d{4} ms unless it is renewed$/);
    }
  });

  it('says that a key in memory is kept after a release', async () => {
    const store = new MemoryLeaseStore();
    await store.tryAcquire('a', 'stripelock:kept:host 3', 60_000);
    for (const timeout of [0, 20]) {
      const messageFor = (keys: string | string[], mode?: 'shared'): Promise<string> =>
        messageOf(new LeaseManager({ store }).acquire(keys, { timeout, ...(mode && { mode }) }));
      const kept = /is kept for [56]\d{4} ms after a release by "host 3"$/;
      expect(await messageFor('a')).toMatch(new RegExp(`: it ${kept.source}`));
      expect(await messageFor('a', 'shared')).toMatch(new RegExp(`: it ${kept.source}`));
      expect(await messageFor(['a', 'b'])).toMatch(new RegExp(`: key "a" ${kept.source}`));
    }
  });

  it('costs as much in a manager that holds many leases as in one that holds few', async () => {
    const cost = async (count: number): Promise<number> => {
      const manager = new LeaseManager({ ttl: 600_000 });
      for (let i = 0; i < count; i++) await manager.acquire(`key ${i}`);
      // The time of this process, whatever else the machine does.
      const before = process.cpuUsage();
      for (let i = 0; i < 300; i++) await rejectionOf(manager.acquire(`key ${i % count}`, { timeout: 0 }));
      const { user, system } = process.cpuUsage(before);
      await manager.close();
      return user + system;
    };
    await cost(10);
    const few = await cost(10);
    // A search of all leases for each error made it 30 times as long.
    expect(await cost(100_000)).toBeLessThan(10 * few);
  });
});
