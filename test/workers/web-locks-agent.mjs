// Requests web locks as messages say, and posts what becomes of each request. See test/web-locks/agent.ts.
import { parentPort, workerData } from 'node:worker_threads';
import { LockManager, locks } from 'stripelock/web-locks';

const manager = workerData.handle === undefined ? locks : LockManager.from(workerData.handle);
/** Functions that end the callback of each request, by its key. */
const ends = new Map();

const methods = {
  request(key, name, options) {
    const callback = (lock) => {
      parentPort.postMessage({ key, event: lock === null ? 'unavailable' : 'granted' });
      return lock === null ? undefined : new Promise((resolve) => ends.set(key, resolve));
    };
    manager.request(name, options, callback).then(
      (value) => parentPort.postMessage({ key, event: 'ended', value }),
      (error) => parentPort.postMessage({ key, event: 'rejected', value: error.name }),
    );
  },
  end: (key, value) => ends.get(key)(value),
  query: async (key) => parentPort.postMessage({ key, event: 'state', value: await manager.query() }),
  handle: (key) => parentPort.postMessage({ key, event: 'handle', value: manager.handle }),
  // Blocks its event loop.
  compute(key) {
    parentPort.postMessage({ key, event: 'computing' });
    for (;;);
  },
  throw() {
    throw new Error('the end of a thread, on purpose');
  },
  exit: () => process.exit(7),
  // Only what it still waits for keeps it alive.
  close: () => parentPort.close(),
};

parentPort.on('message', ({ method, args }) => methods[method](...args));
