// Holds a key until it is terminated.

import { parentPort, workerData } from 'node:worker_threads';
import { openLock, subjectNamed } from '../subjects/index.mjs';

const lock = await openLock(subjectNamed(workerData.subject), workerData.shared);
// The timer keeps the thread alive.
setInterval(() => undefined, 60_000);
void lock.run(workerData.key, () => {
  parentPort?.postMessage('holds');
  return new Promise(() => undefined);
});
