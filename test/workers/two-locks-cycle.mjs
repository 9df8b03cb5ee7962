// Holds a key of a file, and blocks for one of a KeyedLock until it is ended.
import { parentPort, workerData } from 'node:worker_threads';
import { KeyedLock } from 'stripelock';
import { ProcessLock } from 'stripelock/process';

const { path, handle } = workerData;
new ProcessLock({ path }).acquireSync('a');
parentPort.once('message', () => undefined);
parentPort.postMessage('holds');
KeyedLock.from(handle).acquireSync('b', { timeout: Infinity });
