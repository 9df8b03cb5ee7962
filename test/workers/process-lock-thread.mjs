// A thread that holds a key until it is ended.

import { parentPort, workerData } from 'node:worker_threads';
import { ProcessLock } from 'stripelock/process';

const { path, key, limit } = workerData;
const guard = new ProcessLock({ path, limit }).acquireSync(key);
parentPort?.on('message', () => guard.release());
parentPort?.postMessage('holds');
