// Arguments: engine, scenario. A scenario that is not finished when the event loop ends prints nothing.
import { once } from 'node:events';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { StripedLock } from 'stripelock';

/** Starts a worker that holds the key for a while and does not keep this process alive. */
async function heldByAWorker(lock, milliseconds) {
  const worker = new Worker(new URL(import.meta.url), {
    workerData: { role: 'hold', handle: lock.handle, milliseconds },
  });
  await once(worker, 'message');
  worker.unref();
}

const scenarios = {
  async 'granted-by-a-thread'(lock) {
    await heldByAWorker(lock, 200);
    (await lock.acquire('key', { timeout: Infinity })).release();
    console.log('granted');
  },

  async timeout(lock) {
    lock.acquireSync('key');
    await lock.acquire('key', { timeout: 100 }).catch((error) => console.log(error.code));
  },

  async 'pending-in-a-worker'(lock) {
    const guard = lock.acquireSync('key');
    const worker = new Worker(new URL(import.meta.url), {
      workerData: { role: 'wait', handle: lock.handle },
    });
    await once(worker, 'online');
    while (lock.stats().waiting === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    // Time in which the worker would end if nothing kept it alive.
    setTimeout(() => guard.release(), 100);
    await once(worker, 'exit');
  },

  async idle(lock) {
    lock.acquireSync('a').release();
    (await lock.acquire('b')).release();
    const guard = lock.acquireSync('c');
    const waiting = lock.acquire('c');
    guard.release();
    await waiting;
    lock.acquireSync('d', { mode: 'shared' });
    StripedLock.from(lock.handle).tryAcquire('e');
    console.log('done');
  },

  async aborted(lock) {
    lock.acquireSync('key');
    const abort = new AbortController();
    // On the native engine, the last one waits in the addon, and the others in JavaScript.
    const requests = ['key', 'key', 'key', ['key', 'another']];
    const waiters = requests.map((keys) => lock.acquire(keys, { timeout: Infinity, signal: abort.signal }));
    setTimeout(() => abort.abort(), 20);
    const results = await Promise.allSettled(waiters);
    console.log(results.every(({ reason }) => reason === abort.signal.reason) ? 'aborted' : 'wrong');
  },

  async 'granted-by-itself'(lock) {
    const guard = lock.acquireSync('key');
    let granted = 0;
    const waiters = [1, 2, 3].map(() =>
      lock.acquire('key', { timeout: Infinity }).then((own) => {
        granted++;
        own.release();
      }),
    );
    setTimeout(() => guard.release(), 20);
    await Promise.all(waiters);
    console.log(`granted ${granted}`);
  },

  async again(lock) {
    const order = [];
    for (const name of ['first', 'second', 'third']) {
      await heldByAWorker(lock, 50);
      (await lock.acquire('key', { timeout: Infinity })).release();
      order.push(name);
    }
    console.log(order.join(' '));
  },

  async 'idle-workers'(lock) {
    const workers = Array.from(
      { length: 4 },
      () => new Worker(new URL(import.meta.url), { workerData: { role: 'idle', handle: lock.handle } }),
    );
    const codes = await Promise.all(workers.map((worker) => once(worker, 'exit')));
    console.log(`${codes.filter(([code]) => code === 0).length} ended`);
  },
};

const roles = {
  hold(lock, { milliseconds }) {
    const guard = lock.acquireSync('key', { timeout: 10_000 });
    parentPort.postMessage('held');
    setTimeout(() => guard.release(), milliseconds);
  },

  async wait(lock) {
    (await lock.acquire('key', { timeout: Infinity })).release();
    console.log('granted in the worker');
  },

  async idle(lock) {
    (await lock.acquire('mine', { timeout: 1000 })).release();
    lock.acquireSync(['mine', 'yours'], { timeout: 1000 }).release();
  },
};

if (isMainThread) {
  const [engine, scenario] = process.argv.slice(2);
  await scenarios[scenario](new StripedLock({ engine }));
} else {
  await roles[workerData.role](StripedLock.from(workerData.handle), workerData);
}
