import { inspect } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { etcdLeaseStore } from 'stripelock/etcd';
import { mongodbLeaseStore } from 'stripelock/mongodb';
import { mysqlLeaseStore } from 'stripelock/mysql';
import { postgresLeaseStore } from 'stripelock/postgres';
import { redisLeaseStore } from 'stripelock/redis';
import { freePort } from '../support/free-port.mjs';
import { mysqlClients } from '../support/mysql-clients.mjs';
import { rejectionOf, thrownBy } from '../support/waiting.js';

const SECRET = 's3cret';

/** All that a program may print of a value. */
function printed(value: unknown): string {
  const error = value instanceof Error ? [value.message, value.stack] : [];
  return [inspect(value, { depth: 20, showHidden: true }), JSON.stringify(value), ...error].join('\n');
}

describe('a password is not shown', () => {
  it.each([
    ['with a port that does not exist', `redis://:${SECRET}@host:99999`],
    ['with a space', `redis://:${SECRET}@ho st:6379`],
    ['without the end of an address', `redis://:${SECRET}@[::1`],
    ['of another kind', `postgres://user:${SECRET}@host`],
    ['without a scheme', SECRET],
  ])('by the error for a Redis URL %s', (_what, url) => {
    const error = thrownBy(() => redisLeaseStore({ url }));
    expect(error).toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
    expect(printed(error)).not.toContain(SECRET);
  });

  const url = `scheme://user:${SECRET}@host/path`;
  it.each<[string, () => unknown]>([
    ['redisLeaseStore', () => redisLeaseStore(url as never)],
    ['redisLeaseStore, client', () => redisLeaseStore({ client: url as never })],
    ['postgresLeaseStore', () => postgresLeaseStore(url as never)],
    ['postgresLeaseStore, client', () => postgresLeaseStore({ client: url as never })],
    ['postgresLeaseStore, pool', () => postgresLeaseStore({ pool: url as never })],
    ['mysqlLeaseStore', () => mysqlLeaseStore(url as never)],
    ['mysqlLeaseStore, client', () => mysqlLeaseStore({ client: url as never })],
    ['mysqlLeaseStore, pool', () => mysqlLeaseStore({ pool: url as never })],
    ['mongodbLeaseStore, collection', () => mongodbLeaseStore({ collection: url as never })],
    ['mongodbLeaseStore, db', () => mongodbLeaseStore({ db: url as never })],
    ['etcdLeaseStore, endpoints', () => etcdLeaseStore({ endpoints: url as never })],
    ['etcdLeaseStore, an endpoint', () => etcdLeaseStore({ endpoints: [url] })],
    [
      'etcdLeaseStore, credentials',
      () => etcdLeaseStore({ endpoints: ['http://a'], credentials: SECRET as never }),
    ],
    ['etcdLeaseStore, tls', () => etcdLeaseStore({ endpoints: ['http://a'], tls: SECRET as never })],
  ])('by the error for a URL in the wrong place: %s', (_where, make) => {
    const error = thrownBy(make);
    expect(error).toMatchObject({
      code: expect.stringMatching(/^ERR_(INVALID_ARG_TYPE|OUT_OF_RANGE)$/) as string,
    });
    expect(printed(error)).not.toContain(SECRET);
  });

  it('by a store, its source, its manager or its errors', async () => {
    const address = `127.0.0.1:${await freePort()}`;
    const mysqlPools = await Promise.all(
      (['mysql2 pool', 'mysql2/promise pool', 'mariadb pool'] as const).map((library) =>
        mysqlClients[library](`mysql://user:${SECRET}@${address}/database`),
      ),
    );
    for (const { close } of mysqlPools) onTestFinished(() => void close());
    const clientModule = 'file:///client.mjs';
    const stores = [
      ...mysqlPools.map(({ client }) => mysqlLeaseStore({ pool: client, clientModule, timeout: 300 })),
      redisLeaseStore({ url: `redis://:${SECRET}@${address}`, timeout: 300 }),
      etcdLeaseStore({
        endpoints: [`http://${address}`],
        credentials: { username: 'user', password: SECRET },
        tls: { passphrase: SECRET, key: SECRET },
        timeout: 300,
      }),
    ];
    for (const store of stores) {
      onTestFinished(() => store.close());
      const manager = new LeaseManager({ store, renew: { background: true }, maxHold: 60_000 });
      const shown = [
        printed(store),
        printed(manager),
        inspect(store.source, { depth: 20 }),
        printed(await rejectionOf(store.tryAcquire('key', 'me', 1000))),
        printed(await rejectionOf(manager.acquire('key', { timeout: 400 }))),
        printed(await rejectionOf(manager.tryAcquire('key'))),
      ];
      for (const text of shown) expect(text).not.toContain(SECRET);
      await manager.close();
    }
  });
});
