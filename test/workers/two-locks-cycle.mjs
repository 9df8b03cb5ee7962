// Holds a key of a file, and blocks for one of a KeyedLock until it is ended, or refused.
import { parentPort, workerData } from 'node:worker_threads';
import { DeadlockError, KeyedLock } from 'stripelock';
import { ProcessLock } from 'stripelock/process';

const { path, handle } = workerData;
const guard = new ProcessLock({ path }).acquireSync('a');
parentPort.once('message', () => undefined);
parentPort.postMessage('holds');
try {
  KeyedLock.from(handle).acquireSync('b', { timeout: Infinity });
} catch (error) {
  if (!(error instanceof DeadlockError)) throw error;
  guard.release();
}
