import { beforeAll, beforeEach, afterAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  LeaseManager,
  type AbandonmentLeaseStore,
  type GrantDetails,
  type SeveralKeysLeaseStore,
  type SharedLeaseStore,
} from 'stripelock';
import { cacheLeaseStore } from 'stripelock/cache';
import { dynamodbLeaseStore } from 'stripelock/dynamodb';
import { mongodbLeaseStore } from 'stripelock/mongodb';
import { mysqlLeaseStore } from 'stripelock/mysql';
import { postgresLeaseStore } from 'stripelock/postgres';
import { redisLeaseStore } from 'stripelock/redis';
import { connectDynamodb, missingPackage } from '../support/dynamodb-clients.mjs';
import { StandIn as DynamodbStandIn } from '../support/dynamodb/stand-in.mjs';
import { clientOf, FakeCache } from '../support/fake-cache.js';
import { HeldRequests } from '../support/held-requests.js';
import { mongodbClients } from '../support/mongodb-clients.mjs';
import { StandIn } from '../support/mongodb/stand-in.mjs';
import { mysqlClients } from '../support/mysql-clients.mjs';
import { hasMysql, MysqlServer } from '../support/mysql-server.mjs';
import { postgresClients } from '../support/postgres-clients.mjs';
import { hasPostgres, PostgresServer } from '../support/postgres-server.mjs';
import { redisClients } from '../support/redis-clients.mjs';
import { redisCommand, RedisServer } from '../support/redis-server.mjs';
import { turns, until } from '../support/waiting.js';

/** Milliseconds: a lease that does not expire in these tests, and one that would be short. */
const LONG = 600_000;
const SHORT = 3000;
/** The time limit of a request that is held, and of no other on a busy machine. */
const HASTE = 1500;
/** Asks again soon. */
const SOON = { initial: 5, max: 50 };

/** A cache store has no `takeBack`, and does not know details. */
type Store = Omit<AbandonmentLeaseStore, 'takeBack'> &
  Partial<Pick<AbandonmentLeaseStore, 'takeBack'> & SeveralKeysLeaseStore>;
/** The servers whose stores are tested in shared mode. */
const SHARED = /^(?:PostgreSQL|MySQL|Redis|MongoDB|DynamoDB)/;

interface Server {
  /** A store in which nothing is held. */
  open(requests: HeldRequests): Promise<Store>;
  stop(): Promise<void>;
}

let made = 0;

/** MySQL, on connections of a pool. */
const mysqlOn = (library: 'mysql2/promise pool' | 'mariadb pool') => async (): Promise<Server> => {
  const server = await MysqlServer.start();
  const { client, close } = await mysqlClients[library](server.url);
  return {
    open: async (requests) => {
      const pool = requests.beforePromisePool(client as { getConnection(): Promise<object> });
      const store = mysqlLeaseStore({ pool, table: `late_${++made}`, timeout: HASTE });
      await store.inspect('key');
      return store;
    },
    stop: async () => {
      await close();
      await server.stop();
    },
  };
};

const servers: Record<string, () => Promise<Server>> = {
  ...(hasPostgres && {
    'PostgreSQL, on connections of a pool': async () => {
      const server = await PostgresServer.start();
      const { client, close } = await postgresClients.pg(server.port);
      return {
        open: async (requests) => {
          const pool = requests.beforePool(client);
          const store = postgresLeaseStore({ pool, table: `late_${++made}`, timeout: HASTE });
          await store.inspect('key');
          return store;
        },
        stop: async () => {
          await close();
          await server.stop();
        },
      };
    },
  }),
  ...(hasMysql && {
    'MySQL, on connections of a pool of mysql2': mysqlOn('mysql2/promise pool'),
    'MySQL, on connections of a pool of mariadb': mysqlOn('mariadb pool'),
  }),
  ...(redisCommand !== undefined && {
    Redis: async () => {
      const server = await RedisServer.start();
      const { client, close } = await redisClients.ioredis(server.port);
      return {
        open: async (requests) => {
          const before = requests.before(client, ['evalsha', 'eval']);
          const store = redisLeaseStore({ client: before, prefix: `late${++made}:`, timeout: HASTE });
          // The server knows the scripts then.
          await store.tryAcquire('other', 'me', LONG);
          await store.renew('other', 'me', LONG);
          await store.release('other', 'me');
          return store;
        },
        stop: async () => {
          close();
          await server.stop();
        },
      };
    },
  }),
  'MongoDB, a stand-in': async () => {
    const server = await StandIn.start({ isReplicaSet: false });
    const { client, close } = await mongodbClients.mongodb(server.url, {});
    return {
      open: async (requests) => {
        const all = client.db('test').collection(`late${++made}`);
        const collection = requests.before(all, ['updateOne', 'findOneAndUpdate']);
        const store = mongodbLeaseStore({ collection, timeout: HASTE });
        await store.inspect('key');
        return store;
      },
      stop: async () => {
        await close();
        await server.stop();
      },
    };
  },
  ...(missingPackage === undefined && {
    'DynamoDB, a stand-in': async () => {
      const tables = Array.from({ length: 20 }, (_, i) => `late_${i}`);
      const server = await DynamodbStandIn.start(tables);
      const all = connectDynamodb(server.url);
      return {
        open: (requests: HeldRequests) => {
          const client = requests.before(all, ['putItem', 'transactWriteItems']);
          return Promise.resolve(dynamodbLeaseStore({ client, table: tables.pop()!, timeout: HASTE }));
        },
        stop: async () => {
          all.destroy();
          await server.stop();
        },
      };
    },
  }),
  'a cache': () =>
    Promise.resolve({
      open: (requests) => {
        const cache = requests.before(clientOf(new FakeCache()), ['add', 'cas']);
        const store = cacheLeaseStore<bigint>({
          get: (...of) => cache.get(...of),
          add: (...of) => cache.add(...of),
          cas: (...of) => cache.cas(...of),
          timeout: HASTE,
        });
        return Promise.resolve(store);
      },
      stop: () => Promise.resolve(),
    }),
};

describe.each(Object.entries(servers))('a request that comes late to %s', (name, start) => {
  let server: Server;
  let requests: HeldRequests;
  let store: Store;
  beforeAll(async () => {
    server = await start();
  }, 120_000);
  afterAll(() => server.stop());
  beforeEach(async () => {
    requests = new HeldRequests();
    store = await server.open(requests);
  });

  /** Sends requests that are held, and returns when they have failed for want of an answer. */
  async function late(send: () => Promise<unknown>): Promise<void> {
    requests.holds = true;
    await expect(send()).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    requests.holds = false;
  }

  const isFree = (key = 'key'): Promise<void> =>
    expect.poll(() => store.inspect(key), { timeout: 20_000 }).toBeUndefined();

  it('as a renewal does not shorten a lease that was renewed after it', async () => {
    await store.tryAcquire('key', 'me', SHORT);
    await late(() => store.renew('key', 'me', SHORT));
    expect(await store.renew('key', 'me', LONG)).toBe(true);
    await requests.letGo();
    expect((await store.inspect('key'))!.remaining).toBeGreaterThan(LONG / 2);
  });

  it('as a renewal does not cut what is left of a minHold', async () => {
    const lease = await new LeaseManager({ store, ttl: 20_000, minHold: LONG, renew: false }).acquire('key');
    await late(() => lease.renew(SHORT));
    expect(await lease.release()).toBe(true);
    await requests.letGo();
    expect((await store.inspect('key'))!.remaining).toBeGreaterThan(LONG / 2);
  });

  it('as an attempt does not shorten a lease that the owner has by another attempt', async () => {
    await late(() => store.tryAcquire('key', 'me', SHORT));
    await store.tryAcquire('key', 'me', SHORT);
    expect(await store.renew('key', 'me', LONG)).toBe(true);
    await requests.letGo();
    expect((await store.inspect('key'))!.remaining).toBeGreaterThan(LONG / 2);
    if (store.tryAcquireAll === undefined) return;
    await late(() => store.tryAcquireAll!(['a', 'b'], 'me', SHORT));
    expect(await store.tryAcquireAll(['b', 'a'], 'me', LONG)).toHaveLength(2);
    await requests.letGo();
    for (const key of ['a', 'b']) expect((await store.inspect(key))!.remaining).toBeGreaterThan(LONG / 2);
  });

  it('as an attempt does not cut what is left of a minHold', async () => {
    const manager = new LeaseManager({ store, ttl: SHORT, minHold: LONG, renew: false, backoff: SOON });
    requests.holds = true;
    const acquiring = manager.acquire('key', { timeout: 60_000 });
    await until(() => requests.isHolding, 'the first attempt is held');
    requests.holds = false;
    const lease = await acquiring;
    expect(await lease.release()).toBe(true);
    await requests.letGo();
    await turns();
    await requests.settled();
    const { owner, remaining } = (await store.inspect('key'))!;
    expect(owner).toMatch(/^stripelock:kept:/);
    expect(remaining).toBeGreaterThan(LONG / 2);
  });

  it.runIf(name === 'Redis')(
    'as an attempt takes no key from an owner whose grant was long ago',
    async () => {
      await late(() => store.tryAcquire('key', 'me', LONG));
      await store.tryAcquire('key', 'me', LONG);
      // More grants than a store remembers.
      for (let i = 0; i < 10_100; i += 100) {
        const names = Array.from({ length: 100 }, (_, j) => `other ${i + j}`);
        await Promise.all(names.map((other) => store.tryAcquire(other, 'me', LONG)));
      }
      await requests.letGo();
      await turns();
      await requests.settled();
      expect(await store.tryAcquire('key', 'you', LONG)).toBeUndefined();
    },
  );

  it.each([{ holder: 'me' }, { reentrant: true }])(
    'as a release does not free the next lease of the same owner: %j',
    async (options) => {
      const manager = new LeaseManager({ store, ttl: LONG, renew: false, ...options });
      const lease = await manager.acquire('key');
      await late(() => lease.release());
      const next = await manager.acquire('key');
      await requests.letGo();
      expect(await store.inspect('key')).toMatchObject({ token: next.token });
      expect(await new LeaseManager({ store }).tryAcquire('key')).toBeUndefined();
      expect(await next.release()).toBe(true);
    },
  );

  it('as an attempt leaves nothing behind, if the owner has had the key and released it before', async () => {
    await late(() => store.tryAcquire('key', 'me', LONG));
    const token = await store.tryAcquire('key', 'me', LONG);
    expect(await store.release('key', 'me', token)).toBe(true);
    await requests.letGo();
    await isFree();
  });

  it.each([false, true])('as an attempt leaves the key as abandoned as it was: %s', async (abandoned) => {
    const before: GrantDetails = {};
    const token = await store.tryAcquire('key', 'gone', LONG, undefined, before);
    if (before.abandoned === undefined) return;
    expect(
      await (abandoned ? store.takeBack!('key', 'gone', token!, true) : store.release('key', 'gone')),
    ).toBe(true);
    requests.holdsAnswers = true;
    await expect(store.tryAcquire('key', 'me', LONG)).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    requests.holdsAnswers = false;
    // The first statement of MySQL grants no abandoned key.
    const isGranted = !(abandoned && name.startsWith('MySQL'));
    expect((await store.inspect('key'))?.owner).toBe(isGranted ? 'me' : undefined);
    await requests.letGo();
    await isFree();
    const after: GrantDetails = {};
    expect(await store.tryAcquire('key', 'next', LONG, undefined, after)).toBeTypeOf('bigint');
    expect(after.abandoned).toEqual([abandoned]);
  });

  it('as an attempt of an acquisition that has ended leaves nothing behind', async () => {
    const manager = new LeaseManager({ store, ttl: LONG, backoff: SOON });
    requests.holds = true;
    const acquiring = manager.acquire('key', { timeout: 60_000 });
    await until(() => requests.isHolding, 'the first attempt is held');
    requests.holds = false;
    await (await acquiring).release();
    await requests.letGo();
    await isFree();
  });

  it('as an attempt does not take the key from the owner, which has it by another attempt', async () => {
    await late(() => store.tryAcquire('key', 'me', LONG));
    const token = await store.tryAcquire('key', 'me', LONG);
    await requests.letGo();
    expect(await store.inspect('key')).toMatchObject({ owner: 'me' });
    expect(await store.tryAcquire('key', 'you', LONG)).toBeUndefined();
    expect(await store.renew('key', 'me', LONG)).toBe(true);
    // In the store its grant may stand in place of the other one.
    expect(await store.release('key', 'me', token)).toBe(true);
    await isFree();
  });

  it('as the answer to an attempt gives back only that grant, not the owner’s next one', async () => {
    requests.holdsAnswers = true;
    await expect(store.tryAcquire('key', 'me', LONG)).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    requests.holdsAnswers = false;
    const token = await store.tryAcquire('key', 'me', LONG);
    await requests.letGo();
    await turns();
    await requests.settled();
    expect(await store.inspect('key')).toMatchObject({ owner: 'me', token });
  });

  it('as an attempt does not take the key from an owner that had it before, and released it after the attempt arrived', async () => {
    const token = await store.tryAcquire('key', 'me', LONG);
    await late(() => store.tryAcquire('key', 'me', LONG));
    await requests.letGo();
    expect(await store.tryAcquire('key', 'you', LONG)).toBeUndefined();
    expect(await store.release('key', 'me', token)).toBe(true);
    await isFree();
  });

  it('for several keys changes nothing of their next leases, and leaves nothing behind', async () => {
    if (store.tryAcquireAll === undefined) return;
    const keys = ['a', 'b'];
    const manager = new LeaseManager({ store, ttl: LONG, holder: 'me', renew: false, backoff: SOON });
    const lease = await manager.acquire(keys);
    await late(() => lease.release());
    const next = await manager.acquire(keys);
    await requests.letGo();
    for (const key of keys) expect(await store.inspect(key)).toMatchObject({ token: next.tokens.get(key) });
    expect(await next.release()).toBe(true);
    await late(() => store.tryAcquireAll!(keys, 'you', LONG));
    const tokens = (await store.tryAcquireAll(keys, 'you', LONG)) as bigint[];
    expect(await store.releaseAll!(keys, 'you', tokens)).toEqual([true, true]);
    await requests.letGo();
    for (const key of keys) await isFree(key);
    onTestFinished(() => manager.close());
  });

  describe.runIf(SHARED.test(name))('in shared mode', () => {
    const readers = (): SharedLeaseStore => store as Store & SharedLeaseStore;

    it('as an attempt leaves no reader behind', async () => {
      await late(() => readers().tryAcquireShared('key', 'r1', LONG));
      await requests.letGo();
      await isFree();
      const grant = await readers().tryAcquireShared('key', 'r2', LONG);
      await late(() => readers().tryAcquireShared('key', 'r1', LONG));
      await requests.letGo();
      expect((await store.inspect('key'))!.owner).toBe(grant!.group);
      expect(await readers().releaseShared('key', 'r2')).toBe(true);
      await isFree();
    });

    it('as an attempt whose answer is late leaves the key as the readers before it have it', async () => {
      requests.holdsAnswers = true;
      await expect(readers().tryAcquireShared('key', 'r1', LONG)).rejects.toMatchObject({
        code: 'ERR_LEASE_STORE',
      });
      requests.holdsAnswers = false;
      const grant = await readers().tryAcquireShared('key', 'r2', LONG);
      expect(grant!.group).toMatch(/^stripelock:readers:r1:/);
      await requests.letGo();
      await turns();
      await requests.settled();
      expect(await store.inspect('key')).toMatchObject({ owner: grant!.group, token: grant!.token });
      expect(await readers().releaseShared('key', 'r2')).toBe(true);
      await isFree();
    });

    it('as a release removes no other reader, and does not free the key of a later holder', async () => {
      await readers().tryAcquireShared('key', 'r1', LONG);
      await late(() => readers().releaseShared('key', 'r1'));
      const joined = await readers().tryAcquireShared('key', 'r2', LONG);
      expect(await readers().releaseShared('key', 'r1')).toBe(true);
      await requests.letGo();
      expect(await store.inspect('key')).toMatchObject({ token: joined!.token });
      await late(() => readers().releaseShared('key', 'r2'));
      expect(await readers().releaseShared('key', 'r2')).toBe(true);
      const token = await store.tryAcquire('key', 'me', LONG);
      await requests.letGo();
      expect(await store.inspect('key')).toMatchObject({ token });
      expect(await store.release('key', 'me', token)).toBe(true);
    });

    it('as a put-off affects neither a writer nor the readers after it', async () => {
      await readers().tryAcquireShared('key', 'r1', LONG);
      await late(() => readers().putOffReaders('key', LONG));
      expect(await readers().releaseShared('key', 'r1')).toBe(true);
      const token = await store.tryAcquire('key', 'me', LONG, 'info');
      await requests.letGo();
      expect(await store.inspect('key')).toMatchObject({ token, info: 'info' });
      expect(await store.release('key', 'me', token)).toBe(true);
      const grant = await readers().tryAcquireShared('key', 'r2', LONG);
      expect(await readers().tryAcquireShared('key', 'r3', LONG)).toEqual(grant);
    });
  });
});
