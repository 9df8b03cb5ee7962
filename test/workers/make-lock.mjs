// Makes a lock, uses it, and ends.
import { parentPort, workerData } from 'node:worker_threads';
import { KeyedLock, StripedLock } from 'stripelock';

const lock = new (workerData.keyed ? KeyedLock : StripedLock)(workerData.options);
lock.acquireSync('key').release();
parentPort.postMessage({ handle: lock.handle });
