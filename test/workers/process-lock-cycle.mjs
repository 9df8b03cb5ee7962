// Holds one key of a file, and blocks for another one until it is ended, or refused.
import { parentPort, workerData } from 'node:worker_threads';
import { DeadlockError } from 'stripelock';
import { ProcessLock } from 'stripelock/process';

const { path, holds, wants } = workerData;
const lock = new ProcessLock({ path });
const guard = lock.acquireSync(holds);
parentPort.postMessage('holds');
try {
  lock.acquireSync(wants, { timeout: Infinity });
} catch (error) {
  if (!(error instanceof DeadlockError)) throw error;
  guard.release();
}
