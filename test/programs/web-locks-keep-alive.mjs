// Arguments: the folder of the package's installation, a scenario. A scenario that is not finished when the event loop
// ends prints nothing.
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

const folder = isMainThread ? process.argv[2] : workerData.folder;
const { LockManager, locks } = await import(pathToFileURL(path.join(folder, 'dist', 'web-locks.mjs')).href);

const never = new Promise(() => undefined);

const scenarios = {
  // Only the waiting request keeps the loop alive, until the timer of the holder, which does not.
  'granted by this thread': () => {
    void locks.request('a', () => new Promise((resolve) => setTimeout(resolve, 100).unref()));
    void locks.request('a', () => console.log('granted'));
  },
  'timed out': () => {
    void locks.request('a', () => never);
    locks.request('a', { timeout: 100 }, () => undefined).catch(({ name }) => console.log(name));
  },
  'nobody waits': () => {
    void locks.request('a', () => never);
    locks
      .request('a', { signal: AbortSignal.abort() }, () => undefined)
      .catch(({ name }) => console.log(name));
    setTimeout(() => console.log('kept alive'), 60_000).unref();
  },
  'nobody waits any more': () => {
    const controller = new AbortController();
    void locks.request('a', () => never);
    locks.request('a', { signal: controller.signal }, () => undefined).catch(({ name }) => console.log(name));
    controller.abort();
    setTimeout(() => console.log('kept alive'), 60_000).unref();
  },
  'granted by another thread': async () => {
    const worker = new Worker(new URL(import.meta.url), { workerData: { folder, hold: 200 } });
    await new Promise((resolve) => worker.once('message', resolve));
    worker.unref();
    await locks.request('a', () => console.log('granted'));
  },
  'the handle in another thread': async () => {
    const { handle } = new LockManager();
    const worker = new Worker(new URL(import.meta.url), { workerData: { folder, handle } });
    console.log(await new Promise((resolve) => worker.once('message', resolve)));
  },
  'nothing but a warning': async () => {
    process.on('warning', ({ name, code }) => console.log(name, code));
    const other = new LockManager();
    // The first manager that this process makes, and the names of the one that all share.
    await locks.request('a', async ({ name }) => console.log(name, (await other.query()).held.length));
  },
};

if (isMainThread) {
  await scenarios[process.argv[3]]();
} else if (workerData.handle !== undefined) {
  try {
    const manager = LockManager.from(workerData.handle);
    parentPort.postMessage(await manager.request('a', () => 'opened'));
  } catch (error) {
    parentPort.postMessage(error.code);
  }
} else {
  await locks.request('a', () => {
    parentPort.postMessage('held');
    return new Promise((resolve) => setTimeout(resolve, workerData.hold));
  });
}
