// Arguments: file, keys (separated by commas), milliseconds. Started by `fork`. From the message that tells it to start it
// takes the keys again and again, without a pause between a release and the next acquisition. Then it tells how often it
// had them, and how often it waited in vain.
import { setTimeout as delay } from 'node:timers/promises';
import { LeaseManager } from 'stripelock';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { sqliteDrivers } from '../support/sqlite-drivers.mjs';

const [file, keys, milliseconds] = process.argv.slice(2);
const database = sqliteDrivers[0].open(file);
const store = sqliteLeaseStore({ database });
const manager = new LeaseManager({ store });

process.once('message', async () => {
  let [grants, timeouts] = [0, 0];
  const ends = performance.now() + Number(milliseconds);
  while (performance.now() < ends) {
    try {
      await manager.withLease(keys.split(','), () => delay(5));
      grants++;
    } catch (error) {
      if (error.code !== 'ERR_LOCK_TIMEOUT') throw error;
      timeouts++;
    }
  }
  await manager.close();
  await store.close();
  database.close();
  process.send({ grants, timeouts });
  process.disconnect();
});
process.send('ready');
