import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';
import { RELEASE, RESERVED_FOR } from '../../unbundled/stores/redis/scripts.js';
import { freePort } from '../support/free-port.mjs';
import { Proxy } from '../support/proxy.mjs';
import { redisCommand, RedisServer } from '../support/redis-server.mjs';
import { watch } from '../support/waiting.js';
import { connectorOf, PATIENT, redisLibraries, RedisScene, type RedisStore } from './redis-setup.js';

/** Does not poll within a test. */
const NEVER = { initial: 600_000, max: 600_000, jitter: 0 };

describe.each(redisLibraries)('waiting for a lease of the Redis store on %s', (library) => {
  const redis = new RedisScene(library);

  it('wakes a waiter when the lease is released', async () => {
    const manager = new LeaseManager({ store: redis.store });
    const other = new LeaseManager({ store: redis.storeWith(), backoff: PATIENT });
    const held = await manager.acquire('key', { ttl: 60_000 });
    const waiting = other.acquire('key', { timeout: 50_000 });
    await expect.poll(() => redis.waits()).toBe(':1');
    const released = performance.now();
    await held.release();
    const lease = await waiting;
    // Far below the first pause between two attempts.
    expect(performance.now() - released).toBeLessThan(5000);
    expect(lease.token > held.token).toBe(true);
    expect(await redis.waits()).toBe(':0');
    await other.close();
    // The second connection ends with the last waiter.
    await expect.poll(() => redis.command('PUBSUB', 'CHANNELS'), { timeout: 5000 }).toBe('*0');
  });

  it('wakes a waiter whose connection was lost during the release, as soon as it is there again', async () => {
    const proxy = await Proxy.to(redis.server.port);
    const { client, close } = await connectorOf(library)(proxy.port);
    onTestFinished(async () => {
      close();
      await proxy.close();
    });
    const other = new LeaseManager({
      store: redis.storeWith({ client }),
      backoff: { initial: 600_000, max: 600_000, jitter: 0 },
    });
    await redis.store.tryAcquire('key', 'a', 600_000);
    const waiting = watch(other.acquire('key', { timeout: 600_000 }));
    await expect.poll(() => redis.waits()).toBe(':1');
    proxy.target = await freePort();
    proxy.cut();
    await expect.poll(() => redis.command('PUBSUB', 'CHANNELS'), { timeout: 20_000 }).toBe('*0');
    expect(await redis.store.release('key', 'a')).toBe(true);
    proxy.target = redis.server.port;
    await expect.poll(() => waiting.state, { timeout: 20_000 }).toBe('fulfilled');
    expect(await (await waiting.promise).release()).toBe(true);
    await other.close();
  });

  it('gives a released key to the longest waiter, even if its last holder asks again at once', async () => {
    const other = new LeaseManager({ store: redis.storeWith(), backoff: PATIENT });
    // Loads the scripts: a script that must be sent a second time would run after what was asked later.
    await redis.store.tryAcquire('other', 'a', 60_000);
    await redis.store.release('other', 'a');
    await redis.store.tryAcquire('key', 'a', 60_000);
    const waiting = other.acquire('key', { timeout: 50_000 });
    for (;;) {
      await expect.poll(() => redis.waits()).toBe(':1');
      const started = performance.now();
      // One after the other on one connection.
      const [released, again, state] = await Promise.all([
        redis.store.release('key', 'a'),
        redis.store.tryAcquire('key', 'a', 60_000),
        redis.store.inspect('key'),
      ]);
      // If the machine is too busy to run the server for as long as the key is kept, the round proves nothing.
      if (again !== undefined && performance.now() - started >= RESERVED_FOR) continue;
      expect([released, again]).toEqual([true, undefined]);
      // Reserved for the waiter, or already the waiter's: it may have been notified before this request.
      expect(state?.owner).not.toBe('a');
      break;
    }
    expect(await (await waiting).release()).toBe(true);
    await other.close();
  });

  it('reserves a released key only for a moment if the notified waiter does not ask', async () => {
    const other = new LeaseManager({
      store: redis.storeWith(),
      backoff: { initial: 20, max: 20, jitter: 0 },
    });
    await redis.store.tryAcquire('key', 'a', 60_000);
    const waiting = other.acquire('key', { timeout: 50_000 });
    await expect.poll(() => redis.waits()).toBe(':1');
    // A waiter that is notified but does nothing, and has waited longer.
    const still = new Redis(redis.server.port, '127.0.0.1');
    onTestFinished(() => still.disconnect());
    await still.subscribe('still');
    await redis.command('ZADD', 'stripelock:{108}?key', '1', 'still');
    expect(await redis.store.release('key', 'a')).toBe(true);
    expect(await redis.store.inspect('key')).toBeUndefined();
    expect(await (await waiting).release()).toBe(true);
    await other.close();
  });

  it('serves every store when all ask again and again', async () => {
    const stores = await Promise.all(
      Array.from({ length: 5 }, async () => {
        const { client } = await redis.connect();
        return redis.storeWith({ client });
      }),
    );
    const turns = stores.map(() => 0);
    const total = (): number => turns.reduce((a, b) => a + b);
    let last = -1;
    await Promise.all(
      stores.map(async (own, i) => {
        const manager = new LeaseManager({ store: own });
        while (total() < 200) {
          const lease = await manager.acquire('key', { timeout: 50_000 });
          if (last !== i) turns[i]!++;
          last = i;
          await lease.release();
        }
      }),
    );
    // With strict turns each would get forty; until all are connected, some are faster.
    for (const count of turns) expect(count).toBeGreaterThan(20);
  });

  it('grants a store the key again in its turn while another store waits, and then hands it over', async () => {
    const stores = [redis.store, redis.storeWith({ client: (await redis.connect()).client })];
    const grants: { by: number; token: bigint; abandoned: boolean | undefined; isAwaited: boolean }[] = [];
    /** Grants to the store that also had the grant before, although another store was waiting. */
    const again = (): number =>
      grants.filter(({ by }, i) => grants[i - 1]?.by === by && grants[i - 1]!.isAwaited).length;
    const handOvers = (): number => grants.filter(({ by }, i) => i > 0 && grants[i - 1]!.by !== by).length;
    await Promise.all(
      stores.map(async (store, by) => {
        // Without polling, each hand-over depends on a notification, even after the last grant of a store.
        const manager = new LeaseManager({ store, backoff: NEVER });
        while (again() < 20 || handOvers() < 20) {
          const lease = await manager.acquire('key', { timeout: 600_000 });
          const { token, abandoned } = lease;
          grants.push({ by, token, abandoned, isAwaited: (await redis.waits()) === ':1' });
          expect(await lease.release()).toBe(true);
        }
      }),
    );
    expect(grants.every(({ token }, i) => i === 0 || token > grants[i - 1]!.token)).toBe(true);
    expect(grants.every(({ abandoned }) => abandoned === false)).toBe(true);
  });

  it('passes on the notification of a release if no acquisition of its process waits any more', async () => {
    const patient = { backoff: PATIENT };
    const holder = await new LeaseManager({ store: redis.store }).acquire('key');
    const [first, second] = [
      new LeaseManager({ store: redis.storeWith(), ...patient }),
      new LeaseManager({ store: redis.storeWith(), ...patient }),
    ];
    const waiters = async (): Promise<string> => redis.command('ZCARD', 'stripelock:{108}?key');
    const abort = new AbortController();
    const left = first.acquire('key', { timeout: 50_000, signal: abort.signal });
    await expect.poll(waiters).toBe(':1');
    const waiting = second.acquire('key', { timeout: 50_000 });
    await expect.poll(waiters).toBe(':2');
    abort.abort();
    await expect(left).rejects.toThrow();
    const released = performance.now();
    await holder.release();
    expect((await waiting).held).toBe(true);
    expect(performance.now() - released).toBeLessThan(5000);
    await second.close();
  });

  it('wakes a waiter when the lease expires', async () => {
    await redis.store.tryAcquire('key', 'somebody who died', 300);
    const manager = new LeaseManager({ store: redis.store, backoff: PATIENT });
    const started = performance.now();
    const lease = await manager.acquire('key', { timeout: 50_000 });
    expect(performance.now() - started).toBeLessThan(5000);
    await lease.release();
  });

  it.each(['zpopmin', 'publish'])(
    'frees a key that others wait for even if an ACL forbids telling them: %s',
    async (forbidden) => {
      const other = new LeaseManager({ store: redis.storeWith(), backoff: { initial: 20, max: 20 } });
      await redis.store.tryAcquire('key', 'a', 60_000);
      const waiting = other.acquire('key', { timeout: 50_000 });
      await expect.poll(() => redis.waits()).toBe(':1');
      await redis.command('ACL', 'SETUSER', 'default', `-${forbidden}`);
      onTestFinished(async () => {
        await redis.command('ACL', 'SETUSER', 'default', '+@all');
      });
      expect(await redis.store.release('key', 'a')).toBe(true);
      expect((await waiting).held).toBe(true);
      await other.close();
    },
  );
});

/** The members of an ioredis or iovalkey client that the test uses. */
interface IoRedisLike {
  duplicate: (options: object) => IoRedisLike;
  readonly status: string;
  readonly stream: { destroy(): void };
  once(event: 'ready', listener: () => void): void;
  disconnect(reconnect: boolean): void;
}

it.each(redisLibraries.filter((name) => name !== 'redis'))(
  'leaves no rejection unhandled when it is closed while %s subscribes again on a bad connection',
  async (name) => {
    const server = await RedisServer.start();
    onTestFinished(() => server.stop());
    const connected = await connectorOf(name)(server.port);
    onTestFinished(connected.close);
    const client = connected.client as IoRedisLike;
    let subscriber: IoRedisLike | undefined;
    const duplicate = client.duplicate.bind(client);
    client.duplicate = (options) => (subscriber = duplicate(options));
    const store = redisLeaseStore({ client });
    store.onRelease('key', () => undefined);
    await expect.poll(() => server.command('PUBSUB', 'CHANNELS')).toContain('waiter:');
    const rejections: unknown[] = [];
    const reject = (reason: unknown): void => void rejections.push(reason);
    process.on('unhandledRejection', reject);
    onTestFinished(() => void process.off('unhandledRejection', reject));
    const closed = new Promise<void>((resolve) => {
      subscriber!.once('ready', () => {
        subscriber!.stream.destroy();
        void store.close().then(resolve);
      });
    });
    subscriber!.disconnect(true);
    await closed;
    await expect.poll(() => subscriber!.status).toBe('end');
    await new Promise((resolve) => setImmediate(resolve));
    expect(rejections).toEqual([]);
  },
);

it.runIf(redisCommand !== undefined)(
  'notices releases through a client that puts a prefix before keys',
  async () => {
    const server = await RedisServer.start();
    const clients = [1, 2].map(() => new Redis(server.port, '127.0.0.1', { keyPrefix: 'app:' }));
    const stores = clients.map((client) => redisLeaseStore({ client }));
    onTestFinished(async () => {
      for (const store of stores) await store.close();
      for (const client of clients) client.disconnect();
      await server.stop();
    });
    const held = await new LeaseManager({ store: stores[0]! }).acquire('key');
    const waiting = new LeaseManager({ store: stores[1]!, backoff: PATIENT }).acquire('key', {
      timeout: 50_000,
    });
    const waits = (): Promise<string> => server.command('EXISTS', 'app:stripelock:{108}?key');
    await expect.poll(waits).toBe(':1');
    const released = performance.now();
    await held.release();
    await (await waiting).release();
    expect(performance.now() - released).toBeLessThan(5000);
  },
);

describe.runIf(redisCommand !== undefined)('the record of a store that waits in Redis', () => {
  const redis = new RedisScene('ioredis');
  const LEASE = 'stripelock:{108}:key';
  const WAITERS = 'stripelock:{108}?key';
  const MARK = 'stripelock:{108}!key';
  /** The store asks for this key alone, or for it and another. */
  const asks = [
    ['alone', (store: RedisStore) => store.tryAcquire('key', 'me', 60_000)],
    ['among others', (store: RedisStore) => store.tryAcquireAll(['key', 'other'], 'me', 60_000)],
  ] as const;
  const isGranted = (answer: unknown): boolean => answer !== undefined && typeof answer !== 'number';

  /** A store that waits for the key, and its channel. */
  async function waiting(): Promise<{ store: RedisStore; channel: string }> {
    const store = redis.storeWith();
    store.onRelease('key', () => undefined);
    await expect.poll(() => redis.command('PUBSUB', 'CHANNELS')).toContain('waiter:');
    const channel = /stripelock:waiter:\S+/.exec(await redis.command('PUBSUB', 'CHANNELS'))![0];
    return { store, channel };
  }

  /** The same, refused by the lease of another owner, which lasts for two seconds. */
  async function refused(ask: (store: RedisStore) => Promise<unknown>): ReturnType<typeof waiting> {
    await redis.store.tryAcquire('key', 'somebody else', 60_000);
    const waiter = await waiting();
    await expect
      .poll(async () => isGranted(await ask(waiter.store)) || (await redis.waits()), { timeout: 20_000 })
      .toBe(':1');
    return waiter;
  }

  const keep = (channel: string): Promise<string> =>
    redis.command('SET', LEASE, `${'0'.repeat(19)}~${channel}`, 'PX', 60_000);
  const lasts = async (): Promise<number> => Number((await redis.command('PTTL', WAITERS)).slice(1));

  /** A client that is notified of releases, and does nothing. Returns its messages. */
  async function subscriber(): Promise<readonly string[]> {
    const still = new Redis(redis.server.port, '127.0.0.1');
    onTestFinished(() => still.disconnect());
    const messages: string[] = [];
    still.on('message', (_channel, message) => messages.push(message));
    await still.subscribe('still');
    return messages;
  }

  it.each(asks)('goes when it is granted the key %s', async (_how, ask) => {
    const { store } = await refused(ask);
    await redis.command('DEL', LEASE);
    expect(isGranted(await ask(store))).toBe(true);
    expect(await redis.waits()).toBe(':0');
  });

  it.each(asks)(
    'lasts as long as the lease that it waits for, if it asks for the key %s',
    async (_how, ask) => {
      const { store } = await refused(ask);
      await redis.command('PEXPIRE', WAITERS, 5000);
      expect(isGranted(await ask(store))).toBe(false);
      expect(await lasts()).toBeGreaterThan(30_000);
    },
  );

  it.each(asks)(
    'lasts as long as the lease of another waiter that is granted the key %s',
    async (_how, ask) => {
      const { store, channel } = await refused(ask);
      await redis.command('ZADD', WAITERS, '9', 'still');
      await redis.command('PEXPIRE', WAITERS, 5000);
      await redis.command('DEL', LEASE);
      expect(isGranted(await ask(store))).toBe(true);
      expect(await redis.command('ZRANGE', WAITERS, '0', '-1')).not.toContain(channel);
      expect(await lasts()).toBeGreaterThan(30_000);
      const messages = await subscriber();
      await store.release('key', 'me');
      await expect.poll(() => messages).toEqual([LEASE]);
    },
  );

  it.each(asks)('does not get a key that is kept for another, %s', async (_how, ask) => {
    const { store } = await waiting();
    await keep('still');
    expect(isGranted(await ask(store))).toBe(false);
    expect(isGranted(await ask(redis.store))).toBe(false);
    expect(await redis.command('GET', LEASE)).toMatch(/~still$/);
  });

  /** The release of a store that is in its turn, and that does nothing after it. */
  const releaseInTurn = (owner: string, token: bigint | ''): Promise<string> =>
    redis.command('EVAL', RELEASE.source, 3, LEASE, WAITERS, MARK, owner, token, '', 'still');

  it('stays if another store releases the key in its turn and then dies', async () => {
    const token = await redis.store.tryAcquire('key', 'dies', 60_000);
    const other = new LeaseManager({
      store: redis.storeWith(),
      backoff: { initial: 20, max: 20, jitter: 0 },
    });
    const next = other.acquire('key', { timeout: 50_000 });
    await expect.poll(() => redis.waits()).toBe(':1');
    expect(await releaseInTurn('dies', token!)).toBe(':4');
    const lease = await next;
    expect(lease.token > token!).toBe(true);
    expect(lease.abandoned).toBe(false);
    expect(await lease.release()).toBe(true);
    await other.close();
  });

  it('stays if a release in a turn is executed late or twice', async () => {
    const token = await redis.store.tryAcquire('key', 'somebody else', 60_000);
    expect(await redis.store.release('key', 'somebody else')).toBe(true);
    const { store } = await refused((own) => own.tryAcquire('key', 'me', 60_000));
    expect(await releaseInTurn('somebody else', token!)).toBe(':0');
    expect((await redis.store.inspect('key'))?.owner).toBe('somebody else');
    expect(await releaseInTurn('somebody else', '')).toBe(':4');
    expect(await releaseInTurn('somebody else', '')).toBe(':0');
    expect(await redis.command('GET', LEASE)).toMatch(/~still$/);
    expect(await redis.waits()).toBe(':1');
    await store.close();
  });

  it('is not needed for a release in a turn if no store waits', async () => {
    const token = await redis.store.tryAcquire('key', 'me', 60_000);
    expect(await releaseInTurn('me', token!)).toBe(':1');
    expect(await redis.command('EXISTS', LEASE)).toBe(':0');
  });

  it.each(asks)('gets a key that is kept for it, %s', async (_how, ask) => {
    const { store, channel } = await waiting();
    await keep(channel);
    expect(isGranted(await ask(redis.store))).toBe(false);
    expect(isGranted(await ask(store))).toBe(true);
  });

  it('gets no turn once no client of the store is connected', async () => {
    await refused((store) => store.tryAcquire('key', 'me', 60_000));
    await redis.command('ZADD', WAITERS, '0', 'stripelock:waiter:gone');
    const messages = await subscriber();
    await redis.command('ZADD', WAITERS, '1', 'still');
    await redis.store.release('key', 'somebody else');
    expect(await redis.command('GET', LEASE)).toMatch(/~still$/);
    await expect.poll(() => messages).toEqual([LEASE]);
  });

  it.each([
    [['key', 'other'], 1],
    [['other', 'key'], 0],
  ])('passes on a key that is kept for it if another one of %s is held', async (keys, refusedAt) => {
    const { store, channel } = await waiting();
    const messages = await subscriber();
    await redis.store.tryAcquire('other', 'somebody else', 60_000);
    await keep(channel);
    await redis.command('ZADD', WAITERS, '9', 'still');
    expect(await store.tryAcquireAll(keys, 'me', 60_000)).toBe(refusedAt);
    await expect.poll(() => messages).toEqual([LEASE]);
  });
});
