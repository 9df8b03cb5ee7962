import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';
import { connectTo } from '../../unbundled/stores/redis/own-client.js';
import { freePort } from '../support/free-port.mjs';
import { runProgram } from '../support/programs.js';
import { rejectionOf, thrownBy } from '../support/waiting.js';
import { redisLibraries, RedisScene } from './redis-setup.js';

describe.skipIf(redisLibraries.length === 0)('a Redis store that connects by itself', () => {
  const redis = new RedisScene('ioredis');
  const url = (): string => `redis://127.0.0.1:${redis.server.port}`;

  it.each(['ioredis', 'iovalkey', 'redis'] as const)(
    'uses a client of %s if that is installed',
    async (name) => {
      const { client, end } = connectTo(url(), [name]);
      const store = redisLeaseStore({ client, timeout: 20_000 });
      const lease = await new LeaseManager({ store }).acquire('key', { timeout: 20_000 });
      expect(await redis.store.inspect('key')).toMatchObject({ token: lease.token });
      expect(await lease.release()).toBe(true);
      await store.close();
      end();
    },
  );

  it('gives up its reservation when it is closed, even if the server does not know the script', async () => {
    const [lease, waiters] = ['stripelock:{108}:key', 'stripelock:{108}?key'];
    const store = redisLeaseStore({ url: url(), timeout: 20_000 });
    let woken = 0;
    store.onRelease('key', () => woken++);
    await expect.poll(() => woken, { timeout: 20_000 }).toBe(1);
    await redis.store.tryAcquire('key', 'a', 60_000);
    expect(await store.tryAcquire('key', 'b', 60_000)).toBeUndefined();
    const [channel] = /stripelock:waiter:.*$/m.exec(await redis.command('ZRANGE', waiters, 0, 0))!;
    await redis.command('SCRIPT', 'FLUSH');
    // The same as after a release, but the reservation does not expire.
    await redis.command('SET', lease, `${'0'.repeat(19)}~${channel.trim()}`);
    await redis.command('PUBLISH', channel.trim(), lease);
    await expect.poll(() => woken, { timeout: 20_000 }).toBe(2);
    await store.close();
    await expect.poll(() => redis.command('EXISTS', lease), { timeout: 20_000 }).toBe(':0');
  });

  it('says that no library is installed', () => {
    const none = ['no-such-library'] as unknown as ['redis'];
    expect(thrownBy(() => connectTo(url(), none))).toMatchObject({ code: 'ERR_NO_REDIS_CLIENT' });
  });

  it.each(['ioredis', 'redis'] as const)('says why it cannot reach the server: %s', async (name) => {
    const { end, failure } = connectTo(`redis://127.0.0.1:${await freePort()}`, [name]);
    await expect.poll(failure, { timeout: 20_000 }).toMatchObject({ code: 'ECONNREFUSED' });
    end();
    const connected = connectTo(url(), [name]);
    const store = redisLeaseStore({ client: connected.client, timeout: 20_000 });
    await store.inspect('key');
    expect(connected.failure()).toBeUndefined();
    await store.close();
    connected.end();
  });

  it('rejects with the reason if it cannot reach the server, and so does an acquisition that waits', async () => {
    const store = redisLeaseStore({ url: `redis://127.0.0.1:${await freePort()}`, timeout: 500 });
    onTestFinished(() => store.close());
    const reason = {
      code: 'ERR_LEASE_STORE',
      cause: { code: 'ECONNREFUSED' },
      message: expect.stringContaining('ECONNREFUSED') as string,
    };
    expect(await rejectionOf(store.tryAcquire('key', 'a', 1000))).toMatchObject(reason);
    const timedOut = await rejectionOf(new LeaseManager({ store }).acquire('key', { timeout: 1200 }));
    expect(timedOut).toMatchObject({
      code: 'ERR_LOCK_TIMEOUT',
      message: reason.message,
      cause: { cause: reason },
    });
  });

  it('lets the process end once it is closed, although another thread has renewed its leases', async () => {
    const { code, stdout, stderr } = await runProgram('redis-url.mjs', [url()]);
    expect({ code, stderr, stdout }).toEqual({ code: 0, stderr: '', stdout: 'true true\n' });
  });
});
