import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mysqlLeaseStore } from 'stripelock/mysql';
import { leaseStoreContract } from 'stripelock/testing';
import { mysqlClients } from '../support/mysql-clients.mjs';
import { hasMysql, MYSQL_ADVICE, MysqlServer } from '../support/mysql-server.mjs';
import { reportMissing } from '../support/requirements.js';

// Tests run side by side on one server, each in separate tables.
const framework = { describe: describe.concurrent, it, expect };
let tables = 0;

/** The contract on each client. `drop`: whether the tables are removed, because the server stays. */
function contractOn(server: string, url: () => string, drop = false): void {
  for (const [name, connect] of Object.entries(mysqlClients)) {
    leaseStoreContract(framework, `MySQL store on ${name} of ${server}, three clients`, async () => {
      const table = `stripelock_test_${process.pid}_${++tables}`;
      const clients = await Promise.all([1, 2, 3].map(() => connect(url(), { max: 2 })));
      // A test that is not about the time limit must not fail by it on a busy machine.
      const stores = clients.map(({ client }) => mysqlLeaseStore({ client, table, timeout: 30_000 }));
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
          if (drop) await dropTables(url(), table);
        },
      };
    });
  }
}

async function dropTables(url: string, table: string): Promise<void> {
  const { default: mysql } = await import('mysql2/promise');
  const client = await mysql.createConnection(url);
  await client.query(`DROP TABLE ${table}, ${table}_floor`);
  await client.end();
}

if (hasMysql) {
  let server: MysqlServer;
  beforeAll(async () => {
    server = await MysqlServer.start();
  });
  afterAll(() => server.stop());
  contractOn('MariaDB', () => server.url);
} else {
  reportMissing('the MySQL store, with mysql2 and mariadb', 'mariadbd', MYSQL_ADVICE);
}

/** The URL of another server to test on, if there is one. */
const other = process.env['STRIPELOCK_MYSQL_URL'];

if (other === undefined) {
  // CI has no MySQL, so this is not a failure there. MariaDB is tested everywhere.
  describe('the MySQL store on a real MySQL', () => {
    it('needs STRIPELOCK_MYSQL_URL', ({ skip }) => {
      skip('NOT TESTED on MySQL itself. STRIPELOCK_MYSQL_URL names no server; see CONTRIBUTING.md.');
    });
  });
} else {
  contractOn('STRIPELOCK_MYSQL_URL', () => other, true);
}
