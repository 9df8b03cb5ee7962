/** Keeps a lock busy, and now and then does one of the things that the metrics show. */
import { setTimeout as delay } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { LeaseManager, MemoryLeaseStore, StripedLock } from 'stripelock';
import { forwardEvents } from './lock-metrics.mjs';

const ROUNDS = 40;

forwardEvents(parentPort);
const lock = StripedLock.from(workerData.handle);

for (let round = 0; round < ROUNDS; round++) {
  const account = `acct:${round % 3}`;
  await lock.withLock(account, { timeout: 50 }, () => delay(2)).catch(() => undefined);
  lock.withLockSync([account, 'audit'], { mode: 'shared' }, () => undefined);
}
/** A lease store that cannot be reached when a lease is to be renewed. */
class FailingStore extends MemoryLeaseStore {
  renew() {
    return Promise.reject(new Error('the lease store is down'));
  }
}
await new LeaseManager({ store: new FailingStore() }).withLease('job', async (lease) => {
  await lease.renew().catch(() => undefined);
});
try {
  lock.withLockSync('audit', () => lock.acquireSync('audit'));
} catch (error) {
  // A DeadlockError: keys that are needed together belong in one call.
  if (error.code !== 'ERR_LOCK_DEADLOCK') throw error;
}
lock.acquireSync('acct:0');
// Then it dies while it holds the key.
process.exit();
