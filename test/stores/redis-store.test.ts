import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager, LeaseStoreError, type Lease } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';
import { Proxy } from '../support/proxy.mjs';
import { rejectionOf } from '../support/waiting.js';
import { connectorOf, redisLibraries, RedisScene } from './redis-setup.js';

describe.each(redisLibraries)('the Redis store on %s', (library) => {
  const redis = new RedisScene(library);

  it('keeps all keys of a lease in one slot; of a released lease only the bucket; of an expired one its mark, for a day', async () => {
    await redis.store.tryAcquire('job:{nightly}}', 'a', 60_000);
    const keys = await redis.command('KEYS', '*');
    const [, bucket] = /^stripelock:(\{\d+\})$/m.exec(keys)!;
    expect(keys).toContain(`stripelock:${bucket}:job:{nightly}}`);
    await redis.store.release('job:{nightly}}', 'a');
    expect(await redis.command('DBSIZE')).toBe(':1');
    await redis.store.tryAcquire('job:{nightly}}', 'a', 20);
    await expect.poll(() => redis.command('DBSIZE'), { interval: 10 }).toBe(':2');
    const stays = Number((await redis.command('PTTL', `stripelock:${bucket}!job:{nightly}}`)).slice(1));
    expect(stays).toBeGreaterThan(23 * 3_600_000);
    expect(stays).toBeLessThanOrEqual(24 * 3_600_000);
    await redis.store.tryAcquire('job:{nightly}}', 'a', 60_000);
    expect(await redis.store.release('job:{nightly}}', 'a')).toBe(true);
    expect(await redis.command('DBSIZE')).toBe(':1');
  });

  it('makes tokens rise after everything was flushed, or only the highest token', async () => {
    const tokens = [await redis.store.tryAcquire('key', 'a', 60_000)];
    await redis.command('FLUSHALL');
    tokens.push(await redis.store.tryAcquire('key', 'b', 60_000));
    await redis.command('FLUSHALL');
    tokens.push(await redis.storeWith().tryAcquire('key', 'c', 60_000));
    expect(tokens.every((token, i) => i === 0 || token! > tokens[i - 1]!)).toBe(true);
  });

  it('makes tokens rise when the clock is behind, by what the server remembers and by what the client remembers', async () => {
    const ahead = (BigInt(Date.now()) + 3_600_000n) * 1000n;
    await redis.store.tryAcquire('key', 'a', 60_000);
    const [bucket] = /stripelock:\{\d+\}$/m.exec(await redis.command('KEYS', '*'))!;
    await redis.command('SET', bucket, ahead);
    const second = await redis.store.tryAcquire('key', 'a', 60_000);
    expect(second).toBe((ahead + 1n) * 1000n);
    await redis.command('FLUSHALL');
    expect(await redis.store.tryAcquire('key', 'a', 60_000)).toBe((ahead + 2n) * 1000n);
  });

  it('keeps working after its scripts were flushed', async () => {
    await redis.store.tryAcquire('key', 'a', 60_000);
    await redis.command('SCRIPT', 'FLUSH');
    expect(await redis.store.renew('key', 'a', 60_000)).toBe(true);
    expect(await redis.store.release('key', 'a')).toBe(true);
  });

  it('fails if something else is stored at its keys, and leaves that alone', async () => {
    await redis.store.tryAcquire('key', 'a', 60_000);
    const [lease] = /stripelock:\{\d+\}:key$/m.exec(await redis.command('KEYS', '*'))!;
    for (const command of [
      ['RPUSH', lease, 'x'],
      ['SET', lease, 'some text'],
    ]) {
      await redis.command('DEL', lease);
      await redis.command(...command);
      await expect(redis.store.tryAcquire('key', 'a', 60_000)).rejects.toThrow(/WRONGTYPE/);
      await expect(redis.store.renew('key', 'a', 60_000)).rejects.toBeInstanceOf(LeaseStoreError);
      await expect(redis.store.release('key', 'a')).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
      await expect(redis.store.inspect('key')).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
      expect(await redis.command('EXISTS', lease)).toBe(':1');
    }
    await redis.command('DEL', lease);
    await redis.command('SET', lease.replace(':key', ''), 'no number');
    await expect(redis.store.tryAcquire('key', 'a', 60_000)).rejects.toThrow(/is not a token/);
    expect(await redis.command('EXISTS', lease)).toBe(':0');
  });

  it('fails in bounded time if the server hangs, and gives a late grant back', async () => {
    const hasty = redis.storeWith({ timeout: 50 });
    await redis.store.inspect('key');
    await redis.command('CLIENT', 'PAUSE', '300', 'ALL');
    const started = performance.now();
    await expect(hasty.tryAcquire('key', 'a', 600_000)).rejects.toThrow(/has not answered within 50 ms/);
    expect(performance.now() - started).toBeLessThan(290);
    // After the pause the lease is granted, and given back, as its bucket shows.
    await expect
      .poll(async () => /stripelock:\{\d+\}$/m.test(await redis.command('KEYS', '*')), { timeout: 5000 })
      .toBe(true);
    await expect.poll(() => redis.store.inspect('key'), { timeout: 5000 }).toBeUndefined();
  });

  it('makes the server keep a lease for longer than its holder counts on, by the allowed drift', async () => {
    const generous = redis.storeWith({ drift: 0.1 });
    await generous.tryAcquire('key', 'a', 60_000);
    const remaining = async (): Promise<number> =>
      Number((await redis.command('PTTL', 'stripelock:{108}:key')).slice(1));
    // A busy machine may take seconds to ask.
    expect(await remaining()).toBeGreaterThan(60_500);
    expect((await generous.inspect('key'))!.remaining).toBeLessThanOrEqual(60_000);
    await generous.renew('key', 'a', 120_000);
    expect(await remaining()).toBeGreaterThan(120_500);
  });

  it.each(['acquire', 'tryAcquire'] as const)(
    'leaves no orphaned lease if the connection is cut after the server has executed an acquisition: %s',
    async (take) => {
      const proxy = await Proxy.to(redis.server.port);
      const cut = await connectorOf(library)(proxy.port);
      const cutOff = redis.storeWith({ client: cut.client, timeout: 1000 });
      const manager = new LeaseManager({ store: cutOff });
      onTestFinished(async () => {
        await manager.close().catch(() => undefined);
        await cutOff.close();
        cut.close();
        await proxy.close();
      });
      await cutOff.inspect('key');
      proxy.delay = 60_000;
      const started = performance.now();
      const asked =
        take === 'acquire' ? manager.acquire('key', { timeout: 20_000 }) : manager.tryAcquire('key');
      const lost = asked.catch((error: unknown) => error);
      await expect.poll(() => redis.command('EXISTS', 'stripelock:{108}:key'), { interval: 5 }).toBe(':1');
      proxy.cut();
      proxy.delay = 0;
      const result = await lost;
      if (take === 'tryAcquire' && result instanceof Error) {
        expect(result).toMatchObject({ code: 'ERR_LEASE_STORE', cause: { code: 'ERR_LEASE_STORE' } });
      } else {
        expect(result).toMatchObject({ held: true });
        expect(await (result as Lease).release()).toBe(true);
      }
      const lease = await new LeaseManager({ store: redis.store }).acquire('key', { timeout: 20_000 });
      // Far below the TTL of 30 s: no acquisition waited for the lost grant to expire.
      expect(performance.now() - started).toBeLessThan(20_000);
      await lease.release();
    },
    60_000,
  );

  it.each(['release', 'releaseAll', 'releaseShared'] as const)(
    'never says that nothing was held if the connection is cut after the server has executed a %s',
    async (release) => {
      const proxy = await Proxy.to(redis.server.port);
      const cut = await connectorOf(library)(proxy.port);
      const cutOff = redis.storeWith({ client: cut.client, timeout: 20_000 });
      onTestFinished(async () => {
        await cutOff.close();
        cut.close();
        await proxy.close();
      });
      // The server knows the scripts from now on.
      await Promise.all([
        cutOff.release('key', 'a'),
        cutOff.releaseAll(['key', 'other'], 'a'),
        cutOff.releaseShared('key', 'a'),
      ]);
      if (release === 'releaseShared') await cutOff.tryAcquireShared('key', 'a', 60_000);
      else await cutOff.tryAcquireAll(['key', 'other'], 'a', 60_000);
      proxy.delay = 60_000;
      const keys = release === 'releaseAll' ? ['key', 'other'] : 'key';
      const lost = rejectionOf(cutOff[release](keys as never, 'a'));
      await expect.poll(() => redis.command('EXISTS', 'stripelock:{108}:key'), { interval: 5 }).toBe(':0');
      proxy.cut();
      proxy.delay = 0;
      expect(await lost).toMatchObject({ code: 'ERR_LEASE_STORE' });
      // The client has connected again.
      expect(await cutOff.release('key', 'a')).toBe(false);
    },
    60_000,
  );

  it('fails a waiting acquisition at once if the server denies the script, or a command in it', async () => {
    for (const denied of ['evalsha', 'getset']) {
      await redis.command('ACL', 'SETUSER', 'default', `-${denied}`);
      const manager = new LeaseManager({ store: redis.store });
      const error = await rejectionOf(manager.acquire('key', { timeout: 60_000 }));
      await redis.command('ACL', 'SETUSER', 'default', '+@all');
      expect(error).toMatchObject({ code: 'ERR_LEASE_STORE_DENIED', name: 'LockError' });
    }
  });

  it('lists its own leases among many other keys, with wildcards in the prefix of the store and of the client', async () => {
    const prefix = 'a*[b]?\\:';
    const store = redis.storeWith({ prefix });
    const keys = Array.from({ length: 1200 }, (_, i) => `job:${String(i).padStart(4, '0')}`);
    await Promise.all(keys.map((key) => store.tryAcquire(key, 'a', 60_000)));
    // Other stores, the tokens, and what other programs keep.
    await redis.storeWith({ prefix: 'axb\\:' }).tryAcquire('job:0', 'b', 60_000);
    for (const value of ['foreign', '0'.repeat(19) + '~channel']) {
      await redis.command('SET', `${prefix}{1}:job:${value}`, value);
      await redis.command('SET', `${prefix}{108}:key`, value);
    }
    await redis.command('SADD', `${prefix}{108}?key`, 'waits');
    await Promise.all(keys.map((_, i) => redis.command('SET', `other:${i}`, 'x')));
    expect((await store.list({ limit: 2000 })).map(({ key }) => key)).toEqual(keys);
    expect((await store.list({ prefix: 'job:119' })).map(({ key }) => key)).toEqual(keys.slice(1190));
    expect((await store.list({ limit: 5 })).map(({ key }) => key)).toEqual(keys.slice(0, 5));
    expect(await redis.storeWith({ prefix: 'none:' }).list()).toEqual([]);
  });

  it.skipIf(library === 'redis')('lists its leases on a client with a prefix', async () => {
    const { Redis } = (await import('ioredis')).default;
    const client = new Redis(redis.server.port, '127.0.0.1', { keyPrefix: 'app[1]:' });
    onTestFinished(() => client.disconnect());
    const store = redis.storeWith({ client });
    await store.tryAcquire('key', 'a', 60_000);
    await redis.store.tryAcquire('other', 'a', 60_000);
    expect((await store.list()).map(({ key }) => key)).toEqual(['key']);
    expect((await redis.store.list()).map(({ key }) => key)).toEqual(['other']);
  });

  it('lists no key that is reserved for a waiter', async () => {
    const [, bucket] = /(\{\d+\}):key/.exec(
      await redis.store.tryAcquire('key', 'a', 60_000).then(() => redis.command('KEYS', '*')),
    )!;
    await redis.command('SET', `stripelock:${bucket}:key`, `${'0'.repeat(19)}~stripelock:waiter:x`);
    expect(await redis.store.list()).toEqual([]);
  });

  it('refuses operations once it is closed, and leaves the client open', async () => {
    await redis.store.tryAcquire('key', 'a', 60_000);
    await redis.store.close();
    await expect(redis.store.inspect('key')).rejects.toThrow(/was closed/);
    expect((await redis.storeWith().inspect('key'))?.owner).toBe('a');
  });

  it('refuses bad options', () => {
    const codeOf = (options: unknown): unknown => {
      try {
        return redisLeaseStore(options as never);
      } catch (error) {
        return (error as { code: unknown }).code;
      }
    };
    const { client } = redis;
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
