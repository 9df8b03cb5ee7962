import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';
import { leaseStoreContract } from 'stripelock/testing';
import { isInstalled, loadPackage, RECIPES_ADVICE } from '../support/recipe-packages.mjs';
import { REDIS_ADVICE, redisCommand, RedisServer } from '../support/redis-server.mjs';
import { reportMissing } from '../support/requirements.js';
import { UpstashRest } from '../support/upstash-rest.mjs';
import { rejectionOf } from '../support/waiting.js';
import type { RedisStore } from './redis-setup.js';

const PACKAGE = '@upstash/redis';
const LEASE = 'stripelock:{108}:key';

/** Options of the client that change how it sends, and what it makes of a reply. */
const settings = [
  ['with its defaults', {}],
  ['without automatic pipelining', { enableAutoPipelining: false }],
  ['with replies as they are', { automaticDeserialization: false, responseEncoding: false }],
] as const;

const framework = { describe: describe.concurrent, it, expect };
let stores = 0;

function clientOf(url: string, token: string, options: object = {}): object {
  const { Redis } = loadPackage(PACKAGE) as { Redis: new (options: object) => object };
  return new Redis({ url, token, enableTelemetry: false, ...options });
}

function contractOn(where: string, connect: () => object): void {
  leaseStoreContract(framework, `Redis store on @upstash/redis, ${where}`, () => {
    const prefix = `test ${++stores}:`;
    const [store, peer] = [1, 2].map(() => redisLeaseStore({ client: connect(), prefix, timeout: 20_000 }));
    return Promise.resolve({
      store: store!,
      peers: [peer!],
      keepsInfo: true,
      reportsAbandonment: true,
      async dispose() {
        await Promise.all([store!.close(), peer!.close()]);
      },
    });
  });
}

if (redisCommand === undefined) {
  reportMissing('the Redis store on @upstash/redis', 'redis-server', REDIS_ADVICE);
} else if (!isInstalled(PACKAGE)) {
  reportMissing('the Redis store on @upstash/redis', PACKAGE, RECIPES_ADVICE);
} else {
  let server: RedisServer;
  let rest: UpstashRest;
  beforeAll(async () => {
    server = await RedisServer.start();
    rest = await UpstashRest.to(server.port);
  });
  afterAll(async () => {
    await rest.stop();
    await server.stop();
  });

  contractOn('with its defaults', () => clientOf(rest.url, rest.token));

  describe.each(settings)('the Redis store on @upstash/redis, %s', (_how, options) => {
    beforeEach(() => server.command('FLUSHALL'));

    const storeWith = (more: object = {}, token = rest.token): RedisStore => {
      const client = clientOf(rest.url, token, { ...options, ...more });
      const store = redisLeaseStore({ client, timeout: 20_000 });
      onTestFinished(() => store.close());
      return store;
    };

    it('shows owners and infos that are JSON as they were given', async () => {
      const store = storeWith();
      for (const text of ['{"a":1}', '"x"', 'null', 'true', '12', '1e3', '[1]']) {
        const token = await store.tryAcquire('key', text, 60_000);
        expect(await store.inspect('key')).toMatchObject({ owner: text, token });
        await store.tryAcquire('key', text, 60_000, text);
        expect(await store.inspect('key')).toMatchObject({ owner: text, info: text });
        expect(await store.release('key', text)).toBe(true);
      }
    });

    it('keeps working after its scripts were flushed', async () => {
      const store = storeWith();
      await store.tryAcquireAll(['key', 'other'], 'a', 60_000);
      await server.command('SCRIPT', 'FLUSH');
      expect(await store.renewAll(['key', 'other'], 'a', 60_000)).toEqual([true, true]);
      await server.command('SCRIPT', 'FLUSH');
      expect(await store.release('key', 'a')).toBe(true);
    });

    it('lists more leases than one request finds', async () => {
      const store = storeWith();
      const keys = Array.from({ length: 1200 }, (_, i) => `${i + 1000}`);
      await Promise.all(keys.map((key) => store.tryAcquire(key, '{"a":1}', 600_000)));
      const leases = await store.list({ limit: 2000 });
      expect(leases.map(({ key }) => key)).toEqual(keys);
      expect(leases.every(({ owner }) => owner === '{"a":1}')).toBe(true);
    });

    it('lets a waiter poll', async () => {
      const held = await new LeaseManager({ store: storeWith() }).acquire('key');
      const waiting = new LeaseManager({ store: storeWith() }).acquire('key', { timeout: 50_000 });
      await held.release();
      expect(await (await waiting).release()).toBe(true);
    });

    it('fails a waiting acquisition at once if the token is wrong, or the server denies the script', async () => {
      const denied = { code: 'ERR_LEASE_STORE_DENIED' };
      const wrong = new LeaseManager({ store: storeWith({}, 'wrong') });
      expect(await rejectionOf(wrong.acquire('key', { timeout: 50_000 }))).toMatchObject(denied);
      const manager = new LeaseManager({ store: storeWith() });
      await server.command('ACL', 'SETUSER', 'default', '-evalsha');
      const error = await rejectionOf(manager.acquire('key', { timeout: 50_000 }));
      await server.command('ACL', 'SETUSER', 'default', '+@all');
      expect(error).toMatchObject(denied);
    });

    it('does not put the request into its errors', async () => {
      const store = storeWith();
      await server.command('SET', LEASE, 'foreign');
      const error = (await rejectionOf(store.renew('key', 'the owner', 60_000))) as Error;
      expect(error).toMatchObject({ code: 'ERR_LEASE_STORE' });
      expect(error.message).toMatch(/WRONGTYPE the value at .* is not a lease$/);
    });

    it('rejects a release whose answer is lost, if the client does not send it again', async () => {
      const store = storeWith({ retry: { retries: 0 } });
      await store.release('key', 'a');
      await store.tryAcquire('key', 'a', 60_000);
      rest.lose = 1;
      expect(await rejectionOf(store.release('key', 'a'))).toMatchObject({ code: 'ERR_LEASE_STORE' });
      expect(await server.command('EXISTS', LEASE)).toBe(':0');
    });

    it('has one lease if the client sends an acquisition again because its answer was lost', async () => {
      const store = storeWith();
      rest.lose = 1;
      const token = await store.tryAcquire('key', 'a', 60_000);
      expect(await store.inspect('key')).toMatchObject({ owner: 'a', token });
      expect(await store.release('key', 'a')).toBe(true);
    });
  });
}

const { STRIPELOCK_UPSTASH_URL: url, STRIPELOCK_UPSTASH_TOKEN: token } = process.env;

if (url !== undefined && token !== undefined) {
  contractOn('at STRIPELOCK_UPSTASH_URL', () => clientOf(url, token));
} else {
  // CI has no account, so this is not a failure there.
  describe('the Redis store at Upstash itself', () => {
    it('needs STRIPELOCK_UPSTASH_URL and STRIPELOCK_UPSTASH_TOKEN', ({ skip }) => {
      skip('NOT TESTED at Upstash itself. STRIPELOCK_UPSTASH_URL names no database; see CONTRIBUTING.md.');
    });
  });
}
