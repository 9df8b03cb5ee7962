import { describe, expect, it } from 'vitest';
import { mysqlLeaseStore } from 'stripelock/mysql';
import { mysqlClients } from '../support/mysql-clients.mjs';
import { MysqlServer } from '../support/mysql-server.mjs';
import { runProgram } from '../support/programs.js';
import { expectGrantsToOutlive } from './durability.js';
import { mysqlLibraries, type MysqlStore } from './mysql-setup.js';

/** Milliseconds: servers start. */
const TIMEOUT = 180_000;

/** Opens a store for one use. */
async function using<T>(url: string, use: (store: MysqlStore) => Promise<T>): Promise<T> {
  const { client, close } = await mysqlClients['mysql2 pool'](url);
  const store = mysqlLeaseStore({ pool: client, timeout: 20_000 });
  try {
    return await use(store);
  } finally {
    await store.close();
    await Promise.resolve(close()).catch(() => undefined);
  }
}

/** The warnings of a process with two threads, each of which has leases. */
async function warningsOf(url: string): Promise<string> {
  const { code, stdout, stderr } = await runProgram('mysql-flush.mjs', [url]);
  expect({ code, stdout: stdout.trim() }, stderr).toEqual({ code: 0, stdout: 'granted' });
  return stderr;
}

describe.skipIf(mysqlLibraries.length === 0)('a grant in MySQL', () => {
  it.each([1, 2])(
    'outlives the end of the server right after it, and so does a renewal, where the log is written with flush %i',
    async (flush) => {
      const server = await MysqlServer.start(`--innodb-flush-log-at-trx-commit=${flush}`);
      try {
        await expectGrantsToOutlive(server, (use) => using(server.url, use));
        expect(await warningsOf(server.url)).toBe('');
      } finally {
        await server.stop();
      }
    },
    TIMEOUT,
  );

  it(
    'comes with one warning of the process where the server forgets it when it is killed',
    async () => {
      const server = await MysqlServer.start('--innodb-flush-log-at-trx-commit=0');
      try {
        const warnings = await warningsOf(server.url);
        expect(warnings.match(/\[STRIPELOCK_MYSQL_FLUSH\] StripelockWarning: /g)).toHaveLength(1);
        expect(warnings).toContain('innodb_flush_log_at_trx_commit is 0');
      } finally {
        await server.stop();
      }
    },
    TIMEOUT,
  );
});
