/** Keeps a lock busy, and now and then does one of the things that the metrics show. It has no code for metrics. */
import { setTimeout as delay } from 'node:timers/promises';
import { workerData } from 'node:worker_threads';
import { StripedLock } from 'stripelock';

const ROUNDS = 40;

const lock = StripedLock.from(workerData.handle);

for (let round = 0; round < ROUNDS; round++) {
  const account = `acct:${round % 3}`;
  await lock.withLock(account, { timeout: 50 }, () => delay(2)).catch(() => undefined);
  lock.withLockSync([account, 'audit'], { mode: 'shared' }, () => undefined);
}
try {
  lock.withLockSync('audit', () => lock.acquireSync('audit'));
} catch (error) {
  // A DeadlockError: keys that are needed together belong in one call.
  if (error.code !== 'ERR_LOCK_DEADLOCK') throw error;
}
lock.acquireSync('acct:0');
// Then it dies while it holds the key.
process.exit();
