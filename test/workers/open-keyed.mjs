// Opens a KeyedLock, and reports the error.
import { parentPort, workerData } from 'node:worker_threads';
import { KeyedLock } from 'stripelock';

try {
  KeyedLock.from(workerData.handle);
  parentPort.postMessage('opened');
} catch (error) {
  const { name, code, message } = error;
  parentPort.postMessage({ name, code, message });
}
