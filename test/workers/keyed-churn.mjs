// Acquires and releases ever new keys until it is terminated: those of a lock on the JavaScript engine that another thread
// made, or, as that is refused, of a separate lock. Reports how the opening ended.
import { parentPort, workerData } from 'node:worker_threads';
import { KeyedLock } from 'stripelock';

let lock;
try {
  lock = KeyedLock.from(workerData.handle);
  parentPort.postMessage('opened');
} catch (error) {
  parentPort.postMessage(error.code);
  lock = new KeyedLock({ engine: 'javascript' });
}
for (let i = 0; ; i++) lock.acquireSync(`key ${i}`).release();
