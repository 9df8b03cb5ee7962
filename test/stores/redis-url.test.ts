import { describe, expect, it } from 'vitest';
import { LeaseManager } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';
import { connectTo } from '../../unbundled/stores/redis/own-client.js';
import { runProgram } from '../support/programs.js';
import { thrownBy } from '../support/waiting.js';
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
      await store.close?.();
      end();
    },
  );

  it('says that no library is installed', () => {
    const none = ['no-such-library'] as unknown as ['redis'];
    expect(thrownBy(() => connectTo(url(), none))).toMatchObject({ code: 'ERR_NO_REDIS_CLIENT' });
  });

  it('lets the process end once it is closed, although another thread has renewed its leases', async () => {
    const { code, stdout, stderr } = await runProgram('redis-url.mjs', [url()]);
    expect({ code, stderr, stdout }).toEqual({ code: 0, stderr: '', stdout: 'true true\n' });
  });
});
