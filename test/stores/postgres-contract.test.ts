import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresLeaseStore } from 'stripelock/postgres';
import { leaseStoreContract } from 'stripelock/testing';
import { openPgLite, postgresClients } from '../support/postgres-clients.mjs';
import { hasPostgres, POSTGRES_ADVICE, PostgresServer } from '../support/postgres-server.mjs';
import { reportMissing } from '../support/requirements.js';

// Tests run side by side on one server, each in separate tables.
const framework = { describe: describe.concurrent, it, expect };
let tables = 0;

if (hasPostgres) {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server.stop());

  for (const [name, connect] of Object.entries(postgresClients)) {
    leaseStoreContract(framework, `PostgreSQL store on ${name}, three clients`, async () => {
      const table = `test_${++tables}`;
      const clients = await Promise.all([1, 2, 3].map(() => connect(server.port, { max: 2 })));
      // A test that is not about the time limit must not fail by it on a busy machine.
      const stores = clients.map(({ client }) => postgresLeaseStore({ client, table, timeout: 30_000 }));
      // The tables are made before the time counts.
      await stores[0]!.inspect('key');
      return {
        store: stores[0]!,
        peers: stores.slice(1),
        keepsInfo: true,
        reportsAbandonment: true,
        async dispose() {
          for (const store of stores) await store.close();
          for (const { close } of clients) await close();
        },
      };
    });
  }
} else {
  reportMissing('the PostgreSQL store, with pg and postgres', 'postgres', POSTGRES_ADVICE);
}

describe('in this process', () => {
  let database: Awaited<ReturnType<typeof openPgLite>>;
  beforeAll(async () => {
    database = await openPgLite();
  });
  afterAll(() => database.close());

  leaseStoreContract({ describe, it, expect }, 'PostgreSQL store on PGlite', async () => {
    const client = database.client;
    const table = `test_${++tables}`;
    const [store, peer] = [1, 2].map(() => postgresLeaseStore({ client, table, timeout: 30_000 }));
    await store!.inspect('key');
    return { store: store!, peers: [peer!], keepsInfo: true, reportsAbandonment: true };
  });
});
