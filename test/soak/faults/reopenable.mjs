// Stores that a second thread of their process can open, so that it can renew their leases.

import { redisLeaseStore } from 'stripelock/redis';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { redisClients } from '../../support/redis-clients.mjs';
import { onNode20 } from '../../support/sqlite-drivers.mjs';

/** Whether this Node can open a database by its path. */
export const canReopenSqlite = !onNode20;

/** @param {import('./process.mjs').Settings} settings */
export async function openReopenable({ store, file, port, driver, timeout }) {
  if (store === 'sqlite') return { store: sqliteLeaseStore({ path: file, timeout }), close: () => undefined };
  const names = /** @type {(keyof typeof redisClients)[]} */ (Object.keys(redisClients));
  const choice = driver % (names.length + 1);
  if (choice === names.length) {
    const url = `redis://127.0.0.1:${port}`;
    return { store: redisLeaseStore({ url, timeout }), close: () => undefined };
  }
  const { client, close } = await redisClients[names[choice]](port);
  const clientModule = new URL('../../workers/redis-client.mjs', import.meta.url);
  clientModule.searchParams.set('library', names[choice]);
  clientModule.searchParams.set('port', String(port));
  return { store: redisLeaseStore({ client, clientModule, timeout }), close };
}
