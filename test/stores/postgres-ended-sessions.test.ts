import { expect, it, onTestFinished, vi } from 'vitest';
import { postgresLeaseStore } from 'stripelock/postgres';
import { startDyingPostgres, TERMINATES } from '../support/dying-postgres.mjs';
import { postgresClients } from '../support/postgres-clients.mjs';

// A client of `pg` by itself must be connected before a store gets it, which this server makes impossible.
it.each(['pg', 'postgres'] as const)(
  'sessions that end as soon as they are there fail operations in PostgreSQL, and nothing else, on %s',
  async (library) => {
    const server = await startDyingPostgres(TERMINATES);
    const { client, close } = await postgresClients[library](server.port);
    const store = postgresLeaseStore({ client, timeout: 20_000 });
    const unhandled = vi.fn();
    process.on('uncaughtException', unhandled);
    process.on('unhandledRejection', unhandled);
    onTestFinished(async () => {
      await store.close();
      void close();
      process.off('uncaughtException', unhandled);
      process.off('unhandledRejection', unhandled);
      server.close();
    });
    const unlisten = store.onRelease('key', () => undefined);
    for (let i = 0; i < 5; i++) {
      await expect(store.tryAcquire('key', 'a', 1000)).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    }
    unlisten();
    expect(server.sessions).toBeGreaterThanOrEqual(5);
    expect(unhandled).not.toHaveBeenCalled();
  },
);
