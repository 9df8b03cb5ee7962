// @ts-check
// A task that holds a lease while another one waits for it, once the profile that the environment requests has started.
import { setTimeout as delay } from 'node:timers/promises';
import { LeaseManager } from 'stripelock';

const before = process.listenerCount('exit');
const leases = new LeaseManager({ name: 'whole' });
// The profile is written at the exit.
while (process.listenerCount('exit') === before) await delay(1);

/** @param {import('stripelock').Lease} lease */
async function hold(lease) {
  await delay(40);
  await lease.release();
}

await Promise.all([hold(await leases.acquire('key')), leases.withLease('key', () => undefined)]);
console.log('done');
