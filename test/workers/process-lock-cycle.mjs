// Holds one key of a file, and blocks for another one until it is ended.
import { parentPort, workerData } from 'node:worker_threads';
import { ProcessLock } from 'stripelock/process';

const { path, holds, wants } = workerData;
const lock = new ProcessLock({ path });
lock.acquireSync(holds);
parentPort.postMessage('holds');
lock.acquireSync(wants, { timeout: Infinity });
