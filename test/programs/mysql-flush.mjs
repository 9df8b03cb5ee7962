// Leases of two stores in each of two threads: the server's settings decide whether the process warns.
import { once } from 'node:events';
import { Worker, workerData } from 'node:worker_threads';
import { mysqlLeaseStore } from 'stripelock/mysql';
import { mysqlClients } from '../support/mysql-clients.mjs';

const url = workerData ?? process.argv[2];
// On one connection, the answers come in order: when `inspect` has its own, the store has read the setting.
const { client, close } = await mysqlClients['mysql2 pool'](url, { max: 1 });
for (let i = 0; i < 2; i++) {
  const store = mysqlLeaseStore({ pool: client, timeout: 20_000 });
  for (const owner of ['a', 'b']) {
    await store.tryAcquire('key', owner, 60_000);
    await store.inspect('key');
    await store.release('key', owner);
  }
  await store.close();
}
await close();
if (workerData === null) {
  await once(new Worker(new URL(import.meta.url), { workerData: url }), 'exit');
  console.log('granted');
}
