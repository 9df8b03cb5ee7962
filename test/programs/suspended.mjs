// Holds leases on each kind of store, and pretends that the machine was suspended: see test/support/shifted-clock.c.
// Argument: the file with the shift, and a file for a database. Prints what the holder knows before and after.
import { openSync, writeSync } from 'node:fs';
import { LeaseManager, MemoryLeaseStore } from 'stripelock';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { polled, reopenable } from '../support/reopenable.mjs';
import { sqliteDrivers } from '../support/sqlite-drivers.mjs';

const [, , shift, database] = process.argv;
const file = openSync(shift, 'r+');

function suspend(milliseconds) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(BigInt(milliseconds));
  writeSync(file, bytes, 0, 8, 0);
}

const MINUTE = 60_000;
const sqlite = sqliteDrivers[0] && sqliteLeaseStore({ database: sqliteDrivers[0].open(database) });
const stores = {
  polled: polled(new MemoryLeaseStore()),
  background: reopenable(new MemoryLeaseStore()),
  memory: new MemoryLeaseStore(),
  ...(sqlite && { sqlite }),
};
const result = {};
const managers = [];
const leases = {};
for (const [name, store] of Object.entries(stores)) {
  const terms = name === 'background' ? { renew: { background: true }, maxHold: 10 * MINUTE } : {};
  const manager = new LeaseManager({ store, ttl: MINUTE, ...terms });
  managers.push(manager);
  leases[name] = await manager.acquire('key');
}
const held = () => Object.fromEntries(Object.entries(leases).map(([name, lease]) => [name, lease.held]));
result.before = held();
const { expiresAt } = leases.polled;
// Within the TTL nothing is lost.
suspend(MINUTE / 2);
result.half = held();
suspend(2 * MINUTE);
const { signal } = leases.polled;
result.after = held();
result.aborted = signal.aborted;
// The manager's clock is performance.now() plus the time of the suspension.
result.ahead = Math.abs(expiresAt - performance.now() - MINUTE) < MINUTE / 2;
// The thread that renews in the background has not revived a lease that was over.
result.background = leases.background.held;
// To others it expired, too.
const other = new LeaseManager({ store: stores.sqlite ?? stores.polled, ttl: MINUTE });
managers.push(other);
result.taken = sqlite === undefined || (await other.tryAcquire('key')) !== undefined;
console.log(JSON.stringify(result));
await Promise.all(managers.map((manager) => manager.close()));
