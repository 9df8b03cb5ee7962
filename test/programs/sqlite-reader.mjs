// Argument: file. Started by `fork`. Holds a shared lease until it is killed. Sends its token.
import { LeaseManager } from 'stripelock';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { sqliteDrivers } from '../support/sqlite-drivers.mjs';

const database = sqliteDrivers[0].open(process.argv[2]);
const manager = new LeaseManager({ store: sqliteLeaseStore({ database }), ttl: 2000 });
const lease = await manager.acquire('key', { mode: 'shared' });
process.send(String(lease.token));
