import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { redisLeaseStore } from 'stripelock/redis';
import { leaseStoreContract } from 'stripelock/testing';
import { redisClients } from '../support/redis-clients.mjs';
import { REDIS_ADVICE, redisCommand, RedisServer } from '../support/redis-server.mjs';
import { reportMissing } from '../support/requirements.js';
import type { Connection } from './redis-setup.js';

if (redisCommand === undefined) {
  reportMissing('the Redis store, with every client library', 'redis-server', REDIS_ADVICE);
} else {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());

  // Tests run side by side on one server, each under a separate prefix.
  const framework = { describe: describe.concurrent, it, expect };
  let stores = 0;

  for (const [name, connect] of Object.entries(redisClients)) {
    leaseStoreContract(framework, `Redis store on ${name}, three clients`, async () => {
      const prefix = `test ${++stores}:`;
      const clients: Connection[] = await Promise.all([
        connect(server.port),
        connect(server.port),
        connect(server.port),
      ]);
      const [store, ...peers] = clients.map(({ client }) => redisLeaseStore({ client, prefix }));
      return {
        store: store!,
        peers,
        keepsInfo: true,
        reportsAbandonment: true,
        async dispose() {
          for (const made of [store!, ...peers]) await made.close();
          for (const { close } of clients) close();
        },
      };
    });
  }
}
