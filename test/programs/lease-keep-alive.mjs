// Argument: scenario. A scenario that is not finished when the event loop ends prints nothing.
import { once } from 'node:events';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { LeaseManager, MemoryLeaseStore } from 'stripelock';
import { polled, reopenable } from '../support/reopenable.mjs';

const background = { ttl: 5000, renew: { background: true, every: 50 }, maxHold: 600_000 };

async function heldByAWorker(store, milliseconds) {
  const worker = new Worker(new URL(import.meta.url), { workerData: { handle: store.handle, milliseconds } });
  await once(worker, 'message');
  worker.unref();
}

const scenarios = {
  async 'held leases'() {
    const store = new MemoryLeaseStore();
    await new LeaseManager({ store, ttl: 60 }).acquire('a');
    await new LeaseManager({ store: polled(store), ttl: 60 }).acquire('b');
    console.log('held');
    setTimeout(() => console.log('kept alive'), 60_000).unref();
  },
  async 'held leases that another thread renews'() {
    const manager = new LeaseManager({ ...background, store: reopenable(new MemoryLeaseStore()) });
    await manager.acquire('a');
    await manager.acquire('b');
    // It lives for some renewals, and then ends by itself.
    await new Promise((resolve) => setTimeout(resolve, 300));
    console.log('held');
    setTimeout(() => console.log('kept alive'), 60_000).unref();
  },
  async 'held leases in memory that another thread renews'() {
    await new LeaseManager(background).acquire('a');
    console.log('held');
  },
  async 'another thread must start first'() {
    const lease = await new LeaseManager({
      ...background,
      store: reopenable(new MemoryLeaseStore()),
    }).acquire('a');
    if (lease.held) console.log('held');
  },
  async 'released by a thread'() {
    const store = new MemoryLeaseStore();
    await heldByAWorker(store, 200);
    await new LeaseManager({ store }).acquire('key', { timeout: Infinity });
    console.log('granted');
  },
  async 'expired after its thread ended'() {
    const store = new MemoryLeaseStore();
    await heldByAWorker(store, 0);
    await new LeaseManager({ store }).acquire('key', { timeout: 20_000 });
    console.log('granted');
  },
  async polling() {
    const store = new MemoryLeaseStore();
    await heldByAWorker(store, 200);
    await new LeaseManager({ store: polled(store) }).acquire('key', { timeout: Infinity });
    console.log('granted');
  },
  async timeout() {
    const store = new MemoryLeaseStore();
    await store.tryAcquire('key', 'a', 60_000);
    await new LeaseManager({ store })
      .acquire('key', { timeout: 50 })
      .catch((error) => console.log(error.code));
  },
  async 'timeouts that take longer than a turn of the event loop'() {
    let isSlow = false;
    const now = () => {
      const start = performance.now();
      while (isSlow && performance.now() < start + 20);
      return performance.now();
    };
    const store = new MemoryLeaseStore({ clock: { now } });
    const keys = ['a', 'b', 'c', 'd', 'e'];
    for (const key of keys) await store.tryAcquire(key, 'another', 60_000);
    const manager = new LeaseManager({ store });
    const waiting = keys.map((key) => manager.acquire(key, { timeout: 50 }));
    isSlow = true;
    const results = await Promise.allSettled(waiting);
    console.log(results.length, results[4].reason.code);
  },
  async 'nothing rejects unhandled'() {
    process.on('unhandledRejection', (reason) => console.log('unhandled', reason));
    const keptAlive = setInterval(() => undefined, 1000);
    const failing = { ...polled(new MemoryLeaseStore()) };
    const manager = new LeaseManager({ store: failing, ttl: 60 });
    const lost = await manager.acquire('lost');
    const renewing = await manager.acquire('renewing', { ttl: 90 });
    failing.renew = failing.release = () => Promise.reject(new Error('down'));
    void lost.signal;
    await new Promise((resolve) => renewing.signal.addEventListener('abort', resolve, { once: true }));
    failing.tryAcquire = async () => {
      await new Promise((resolve) => setTimeout(resolve, 60));
      return 1n;
    };
    const abort = new AbortController();
    const waiting = manager.acquire('late', { signal: abort.signal, timeout: 5000 });
    abort.abort();
    await waiting.catch(({ name }) => console.log(name));
    await new Promise((resolve) => setTimeout(resolve, 150));
    await manager.withLease('key', { ttl: 1000 }, () => console.log('ran'));
    clearInterval(keptAlive);
  },
};

if (isMainThread) {
  await scenarios[process.argv[2]]();
} else {
  const { handle, milliseconds } = workerData;
  const manager = new LeaseManager({
    store: MemoryLeaseStore.from(handle),
    ttl: 400,
    renew: milliseconds > 0,
  });
  const lease = await manager.acquire('key');
  parentPort.postMessage('held');
  if (milliseconds > 0) setTimeout(() => lease.release(), milliseconds);
}
