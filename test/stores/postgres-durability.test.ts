import { describe, expect, it } from 'vitest';
import { postgresClients } from '../support/postgres-clients.mjs';
import { PostgresServer } from '../support/postgres-server.mjs';
import { Proxy } from '../support/proxy.mjs';
import { postgresLeaseStore } from 'stripelock/postgres';
import { expectGrantsToOutlive } from './durability.js';
import { postgresLibraries } from './postgres-setup.js';

const LONG = 600_000;
/** Milliseconds: servers start, and are copied. */
const TIMEOUT = 180_000;

/** Opens a store for one use. */
async function using<T>(
  port: number,
  use: (store: ReturnType<typeof postgresLeaseStore>) => Promise<T>,
  timeout = 20_000,
): Promise<T> {
  const { client, close } = await postgresClients.pg(port);
  const store = postgresLeaseStore({ pool: client, timeout });
  try {
    return await use(store);
  } finally {
    await store.close();
    // It waits for statements that are under way, and the server may never answer.
    void close();
  }
}

describe.skipIf(postgresLibraries.length === 0)('a grant in PostgreSQL', () => {
  it(
    'outlives the end of the server right after it, and so does a renewal, although commits do not wait for the disk',
    async () => {
      const server = await PostgresServer.start('synchronous_commit=off', 'wal_writer_delay=10s');
      try {
        await expectGrantsToOutlive(server, (use) => using(server.port, use));
      } finally {
        await server.stop();
      }
    },
    TIMEOUT,
  );

  it.each([
    ['has a second holder after a standby that lags has taken over, with a higher token', false],
    [
      'is not given while the standby does not confirm it, so that there is one holder after it has taken over',
      true,
    ],
  ])(
    '%s',
    async (_name, synchronous) => {
      const primary = await PostgresServer.start('wal_level=replica');
      const link = await Proxy.to(primary.port);
      const standby = await PostgresServer.startStandby(primary.port, link.port);
      try {
        const state = async (): Promise<unknown> =>
          (await primary.query('SELECT sync_state FROM pg_stat_replication'))[0]?.['sync_state'];
        await primary.query(`ALTER SYSTEM SET synchronous_standby_names = '${synchronous ? '*' : ''}'`);
        await primary.query('SELECT pg_reload_conf()');
        await expect.poll(state, { timeout: 60_000 }).toBe(synchronous ? 'sync' : 'async');
        const before = await using(primary.port, (store) => store.tryAcquire('key', 'before', LONG));
        await using(primary.port, (store) => store.release('key', 'before'));
        const copied = async (): Promise<unknown> =>
          (await standby.query('SELECT owner FROM stripelock_leases'))[0]?.['owner'];
        await expect.poll(copied, { timeout: 60_000 }).toBe('');
        // Operations on a standby fail: it is read-only.
        await expect(
          using(standby.port, (store) => store.tryAcquire('key', 'x', LONG)),
        ).rejects.toMatchObject({
          code: 'ERR_LEASE_STORE',
        });
        link.delay = 3_600_000;
        const asked = using(primary.port, (store) => store.tryAcquire('key', 'first', LONG), 2000);
        const first = await asked.catch((error: unknown) => (error as { code?: unknown }).code);
        await primary.kill();
        link.cut();
        await standby.query('SELECT pg_promote()');
        const second = await using(standby.port, (store) => store.tryAcquire('key', 'second', LONG));
        if (synchronous) {
          expect(first).toBe('ERR_LEASE_STORE');
          expect(second! > before!).toBe(true);
        } else {
          // Both count on it. From now on a fenced resource refuses the first.
          expect(second! > (first as bigint)).toBe(true);
        }
      } finally {
        await standby.stop();
        await primary.stop();
        await link.close();
      }
    },
    TIMEOUT,
  );
});
