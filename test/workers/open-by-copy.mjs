// Opens a lock with another installation of the package, and tries its key once.
import { parentPort, workerData } from 'node:worker_threads';

const { StripedLock } = await import(workerData.entry);
try {
  const lock = StripedLock.from(workerData.handle);
  const guard = lock.tryAcquire('key');
  guard?.release();
  parentPort.postMessage({ engine: lock.engine, taken: guard !== undefined });
} catch ({ code, message }) {
  parentPort.postMessage({ code, message });
}
