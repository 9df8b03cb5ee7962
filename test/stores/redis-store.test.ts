import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager, LeaseStoreError, type Lease } from 'stripelock';
import { redisLeaseStore, type RedisLeaseStoreOptions } from 'stripelock/redis';
import { KEPT_FOR } from '../../dist/stores/redis/scripts.js';
import { redisClients } from '../support/redis-clients.mjs';
import { redisCommand, RedisServer } from '../support/redis-server.mjs';
import { Proxy } from '../support/proxy.mjs';

type Store = ReturnType<typeof redisLeaseStore>;

/** Asks again only when told to. */
const PATIENT = { initial: 20_000, max: 20_000, jitter: 0 };

// Where there is none, the contract tests say so.
const servers = redisCommand === undefined ? [] : Object.keys(redisClients);

describe.each(servers)('the Redis store on %s', (name) => {
  let server: RedisServer;
  let connection: { client: object; close: () => void };
  let store: Store;
  const connect = redisClients[name as keyof typeof redisClients] as (
    port: number,
  ) => Promise<typeof connection>;
  const storeWith = (options: Partial<RedisLeaseStoreOptions> = {}): Store => {
    // What is not about its time limit must not fail by it on a busy machine.
    const made = redisLeaseStore({ client: connection.client, timeout: 30_000, ...options });
    onTestFinished(() => made.close?.());
    return made;
  };

  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    await server.command('FLUSHALL');
    connection = await connect(server.port);
    store = storeWith();
  });
  afterEach(() => connection.close());

  it('keeps a lease and its bucket in one slot, and nothing of it but the bucket once it is over', async () => {
    await store.tryAcquire('job:{nightly}}', 'a', 60_000);
    const keys = await server.command('KEYS', '*');
    const [, bucket] = /^stripelock:(\{\d+\})$/m.exec(keys)!;
    expect(keys).toContain(`stripelock:${bucket}:job:{nightly}}`);
    await store.release('job:{nightly}}', 'a');
    expect(await server.command('DBSIZE')).toBe(':1');
    await store.tryAcquire('job:{nightly}}', 'a', 60_000);
    expect(await store.renew('job:{nightly}}', 'a', 20)).toBe(true);
    await expect.poll(() => server.command('DBSIZE'), { interval: 10 }).toBe(':1');
  });

  it('has tokens rise when everything was flushed, or only the highest token was', async () => {
    const tokens = [await store.tryAcquire('key', 'a', 60_000)];
    await server.command('FLUSHALL');
    tokens.push(await store.tryAcquire('key', 'b', 60_000));
    await server.command('FLUSHALL');
    tokens.push(await storeWith().tryAcquire('key', 'c', 60_000));
    expect(tokens.every((token, i) => i === 0 || token! > tokens[i - 1]!)).toBe(true);
  });

  it('has tokens rise when the clock is behind: by what the server remembers, and by what the client does', async () => {
    const ahead = (BigInt(Date.now()) + 3_600_000n) * 1000n;
    await store.tryAcquire('key', 'a', 60_000);
    const [bucket] = /stripelock:\{\d+\}$/m.exec(await server.command('KEYS', '*'))!;
    await server.command('SET', bucket, ahead);
    const second = await store.tryAcquire('key', 'a', 60_000);
    expect(second).toBe((ahead + 1n) * 1000n);
    await server.command('FLUSHALL');
    expect(await store.tryAcquire('key', 'a', 60_000)).toBe((ahead + 2n) * 1000n);
  });

  it('works on after its scripts were flushed', async () => {
    await store.tryAcquire('key', 'a', 60_000);
    await server.command('SCRIPT', 'FLUSH');
    expect(await store.renew('key', 'a', 60_000)).toBe(true);
    expect(await store.release('key', 'a')).toBe(true);
  });

  it('fails where something else is at its keys, and leaves it alone', async () => {
    await store.tryAcquire('key', 'a', 60_000);
    const [lease] = /stripelock:\{\d+\}:key$/m.exec(await server.command('KEYS', '*'))!;
    for (const command of [
      ['RPUSH', lease, 'x'],
      ['SET', lease, 'some text'],
    ]) {
      await server.command('DEL', lease);
      await server.command(...command);
      await expect(store.tryAcquire('key', 'a', 60_000)).rejects.toThrow(/WRONGTYPE/);
      await expect(store.renew('key', 'a', 60_000)).rejects.toBeInstanceOf(LeaseStoreError);
      await expect(store.release('key', 'a')).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
      await expect(store.inspect('key')).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
      expect(await server.command('EXISTS', lease)).toBe(':1');
    }
    await server.command('DEL', lease);
    await server.command('SET', lease.replace(':key', ''), 'no number');
    await expect(store.tryAcquire('key', 'a', 60_000)).rejects.toThrow(/is no token/);
    expect(await server.command('EXISTS', lease)).toBe(':0');
  });

  it('fails in bounded time where the server hangs, and gives a late grant back', async () => {
    const hasty = storeWith({ timeout: 50 });
    await store.inspect('key');
    await server.command('CLIENT', 'PAUSE', '300', 'ALL');
    const started = performance.now();
    await expect(hasty.tryAcquire('key', 'a', 600_000)).rejects.toThrow(/has not answered within 50 ms/);
    expect(performance.now() - started).toBeLessThan(290);
    // Once the pause is over, the lease is granted, and given back; its bucket tells that it was.
    await expect
      .poll(async () => /stripelock:\{\d+\}$/m.test(await server.command('KEYS', '*')), { timeout: 5000 })
      .toBe(true);
    await expect.poll(() => store.inspect('key'), { timeout: 5000 }).toBeUndefined();
  });

  it('gives back what is granted when its time is over', async () => {
    await server.command('CLIENT', 'PAUSE', '150', 'ALL');
    await expect(store.tryAcquire('key', 'a', 100)).rejects.toThrow(/given back/);
  });

  it('has the server keep a lease for longer than its holder counts on, by the drift that is allowed', async () => {
    const generous = storeWith({ drift: 0.1 });
    await generous.tryAcquire('key', 'a', 60_000);
    const remaining = async (): Promise<number> =>
      Number((await server.command('PTTL', 'stripelock:{108}:key')).slice(1));
    // A busy machine may take seconds to ask.
    expect(await remaining()).toBeGreaterThan(60_500);
    expect((await generous.inspect('key'))!.remaining).toBeLessThanOrEqual(60_000);
    await generous.renew('key', 'a', 120_000);
    expect(await remaining()).toBeGreaterThan(120_500);
  });

  it('wakes who waits when the lease is released', async () => {
    const manager = new LeaseManager({ store });
    const other = new LeaseManager({ store: storeWith(), backoff: PATIENT });
    const held = await manager.acquire('key', { ttl: 60_000 });
    const waiting = other.acquire('key', { timeout: 50_000 });
    const waits = (): Promise<string> => server.command('EXISTS', 'stripelock:{108}?key');
    await expect.poll(waits).toBe(':1');
    const released = performance.now();
    await held.release();
    const lease = await waiting;
    // Far below the first pause between two attempts.
    expect(performance.now() - released).toBeLessThan(5000);
    expect(lease.token > held.token).toBe(true);
    expect(await waits()).toBe(':0');
    await other.close();
    // The second connection goes when nobody waits any more.
    await expect.poll(() => server.command('PUBSUB', 'CHANNELS'), { timeout: 5000 }).toBe('*0');
  });

  it('gives a key that is released to who has waited longest, whatever who had it asks at once', async () => {
    const other = new LeaseManager({ store: storeWith(), backoff: PATIENT });
    await store.tryAcquire('key', 'a', 60_000);
    const waiting = other.acquire('key', { timeout: 50_000 });
    for (;;) {
      await expect.poll(() => server.command('EXISTS', 'stripelock:{108}?key')).toBe(':1');
      const started = performance.now();
      // One behind the other on one connection, before anybody can have heard of the release.
      const asked = [store.release('key', 'a'), store.tryAcquire('key', 'a', 60_000), store.inspect('key')];
      const answers = await Promise.all(asked);
      // A machine too busy to run the server for as long as the key is kept proves nothing.
      if (answers[1] !== undefined && performance.now() - started >= KEPT_FOR) continue;
      expect(answers).toEqual([true, undefined, undefined]);
      break;
    }
    expect(await (await waiting).release()).toBe(true);
    await other.close();
  });

  it('keeps a released key for a moment only, where who was told does not come', async () => {
    const other = new LeaseManager({
      store: storeWith(),
      backoff: { initial: 20, max: 20, jitter: 0 },
    });
    await store.tryAcquire('key', 'a', 60_000);
    const waiting = other.acquire('key', { timeout: 50_000 });
    await expect.poll(() => server.command('EXISTS', 'stripelock:{108}?key')).toBe(':1');
    // Somebody who hears and stands still, and has waited longer.
    const still = new Redis(server.port, '127.0.0.1');
    onTestFinished(() => still.disconnect());
    await still.subscribe('still');
    await server.command('ZADD', 'stripelock:{108}?key', '1', 'still');
    expect(await store.release('key', 'a')).toBe(true);
    expect(await store.inspect('key')).toBeUndefined();
    expect(await (await waiting).release()).toBe(true);
    await other.close();
  });

  it('leaves nobody out where all ask again and again', async () => {
    const stores = await Promise.all(
      Array.from({ length: 5 }, async () => {
        const own = await connect(server.port);
        onTestFinished(() => own.close());
        const made = redisLeaseStore({ client: own.client, timeout: 30_000 });
        onTestFinished(() => made.close?.());
        return made;
      }),
    );
    const grants = stores.map(() => 0);
    const total = (): number => grants.reduce((a, b) => a + b);
    await Promise.all(
      stores.map(async (own, i) => {
        const manager = new LeaseManager({ store: own });
        while (total() < 200) {
          const lease = await manager.acquire('key', { timeout: 50_000 });
          grants[i]!++;
          await lease.release();
        }
      }),
    );
    // In turns it would be forty each; until all are connected, some are quicker.
    for (const count of grants) expect(count).toBeGreaterThan(20);
  });

  it('passes on the news of a release that nobody of its process waits for any more', async () => {
    const patient = { backoff: PATIENT };
    const holder = await new LeaseManager({ store }).acquire('key');
    const [first, second] = [
      new LeaseManager({ store: storeWith(), ...patient }),
      new LeaseManager({ store: storeWith(), ...patient }),
    ];
    const waiters = async (): Promise<string> => server.command('ZCARD', 'stripelock:{108}?key');
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

  it('wakes who waits when the time of the lease is over', async () => {
    await store.tryAcquire('key', 'somebody who died', 300);
    const manager = new LeaseManager({ store, backoff: PATIENT });
    const started = performance.now();
    const lease = await manager.acquire('key', { timeout: 50_000 });
    expect(performance.now() - started).toBeLessThan(5000);
    await lease.release();
  });

  it.each(['acquire', 'tryAcquire'] as const)(
    'leaves no lease to nobody where the connection is cut after the server has executed an acquisition: %s',
    async (take) => {
      const proxy = await Proxy.to(server.port);
      const cut = await connect(proxy.port);
      const cutOff = storeWith({ client: cut.client, timeout: 1000 });
      const manager = new LeaseManager({ store: cutOff });
      onTestFinished(async () => {
        await manager.close().catch(() => undefined);
        await cutOff.close?.();
        cut.close();
        await proxy.close();
      });
      await cutOff.inspect('key');
      proxy.delay = 60_000;
      const started = performance.now();
      const asked =
        take === 'acquire' ? manager.acquire('key', { timeout: 20_000 }) : manager.tryAcquire('key');
      const lost = asked.catch((error: unknown) => error);
      await expect.poll(() => server.command('EXISTS', 'stripelock:{108}:key'), { interval: 5 }).toBe(':1');
      proxy.cut();
      proxy.delay = 0;
      const result = await lost;
      if (take === 'tryAcquire' && result instanceof Error) {
        expect(result).toMatchObject({ code: 'ERR_LEASE_STORE', cause: { code: 'ERR_LEASE_STORE' } });
      } else {
        expect(result).toMatchObject({ held: true });
        expect(await (result as Lease).release()).toBe(true);
      }
      const lease = await new LeaseManager({ store }).acquire('key', { timeout: 20_000 });
      // Far below the TTL of 30 s: nobody has waited for the lost grant to end.
      expect(performance.now() - started).toBeLessThan(20_000);
      await lease.release();
    },
    60_000,
  );

  it.each(['zpopmin', 'publish'])(
    'frees a key that others wait for also where an ACL forbids to tell them: %s',
    async (forbidden) => {
      const other = new LeaseManager({ store: storeWith(), backoff: { initial: 20, max: 20 } });
      await store.tryAcquire('key', 'a', 60_000);
      const waiting = other.acquire('key', { timeout: 50_000 });
      await expect.poll(() => server.command('EXISTS', 'stripelock:{108}?key')).toBe(':1');
      await server.command('ACL', 'SETUSER', 'default', `-${forbidden}`);
      onTestFinished(async () => {
        await server.command('ACL', 'SETUSER', 'default', '+@all');
      });
      expect(await store.release('key', 'a')).toBe(true);
      expect((await waiting).held).toBe(true);
      await other.close();
    },
  );

  it('refuses operations once it is closed, and leaves the client open', async () => {
    await store.tryAcquire('key', 'a', 60_000);
    await store.close?.();
    await expect(store.inspect('key')).rejects.toThrow(/was closed/);
    expect((await storeWith().inspect('key'))?.owner).toBe('a');
  });

  it('refuses bad options', () => {
    const codeOf = (options: unknown): unknown => {
      try {
        return redisLeaseStore(options as never);
      } catch (error) {
        return (error as { code: unknown }).code;
      }
    };
    const { client } = connection;
    for (const options of [undefined, null, {}, { client: {} }, { client: null }, { client, prefix: 5 }]) {
      expect(codeOf(options)).toBe('ERR_INVALID_ARG_TYPE');
    }
    for (const options of [
      { client, prefix: '{a}' },
      { client, timeout: -1 },
      { client, drift: NaN },
    ]) {
      expect(codeOf(options)).toBe('ERR_OUT_OF_RANGE');
    }
  });
});

/** What the test sees of a client of ioredis or iovalkey. */
interface IoRedisLike {
  duplicate: (options: object) => IoRedisLike;
  readonly status: string;
  readonly stream: { destroy(): void };
  once(event: 'ready', listener: () => void): void;
  disconnect(reconnect: boolean): void;
}

it.each(servers.filter((name) => name !== 'redis') as ('ioredis' | 'iovalkey')[])(
  'lets no rejection out when it is closed while %s subscribes again on a bad connection',
  async (name) => {
    const server = await RedisServer.start();
    onTestFinished(() => server.stop());
    const connected = await redisClients[name](server.port);
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
        void store.close?.().then(resolve);
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
  'hears of releases through a client that puts a prefix before keys',
  async () => {
    const server = await RedisServer.start();
    const clients = [1, 2].map(() => new Redis(server.port, '127.0.0.1', { keyPrefix: 'app:' }));
    const stores = clients.map((client) => redisLeaseStore({ client }));
    onTestFinished(async () => {
      for (const store of stores) await store.close?.();
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
