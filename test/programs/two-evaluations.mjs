// Two evaluations of the package over one addon in one thread: each sees what the other one does. First argument:
// `main` or `worker`, the thread in which they run. Further arguments: how and from where the second one is loaded.
//
//   copy <folder>     its JavaScript is another file
//   reloaded <folder> the same, and the addon's exports are another object
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import * as first from 'stripelock';
import { byteLengthFor } from '../../unbundled/engine/contract/layout.js';

const [where, how, folder] = workerData ?? process.argv.slice(2);

async function evaluateAgain() {
  if (how === 'reloaded') {
    // The first one has loaded it.
    new first.StripedLock();
    const { cache } = createRequire(import.meta.url);
    const addons = Object.keys(cache).filter((file) => file.endsWith('.node'));
    assert.equal(addons.length, 1);
    delete cache[addons[0]];
  }
  return import(pathToFileURL(`${folder}/dist/index.mjs`).href);
}

async function program() {
  const second = await evaluateAgain();
  assert.notEqual(first.StripedLock, second.StripedLock);
  for (const [one, two] of [
    [first, second],
    [second, first],
  ]) {
    await locks(one, two);
    await exactKeys(one, two);
    await waits(one, two);
    await leases(one, two);
  }
}

/** One lock, opened by both. */
function both(one, two) {
  const made = new one.StripedLock({ stripes: 64, timeout: 10_000 });
  const opened = two.StripedLock.from(made.handle);
  assert.deepEqual([made.engine, opened.engine], ['native', 'native']);
  return [made, opened];
}

async function locks(one, two) {
  const [a, b] = both(one, two);
  const guard = a.acquireSync(['x', 'y']);
  assert.ok(guard instanceof one.Guard && !(guard instanceof two.Guard));
  assert.equal(b.tryAcquire('x'), undefined);
  // Both are one thread, which would wait for itself.
  assert.throws(() => b.acquireSync('x'), two.DeadlockError);
  assert.deepEqual(a.stats(), b.stats());
  assert.deepEqual(a.inspect(), b.inspect());
  guard.release();
  const shares = [a, b, a].map((lock) => lock.acquireSync('x', { mode: 'shared' }));
  assert.throws(() => b.acquireSync('x'), two.DeadlockError);
  for (const share of shares) share.release();
  b.acquireSync('x').release();
  // Errors of the engine have the classes of the evaluation that called it.
  const words = new Int32Array(new SharedArrayBuffer(byteLengthFor(1)));
  words.set(new Int32Array(a.handle.arena?.buffer ?? a.handle.buffer, a.handle.offset, 64));
  words[3] = 1;
  words[4] ^= 1;
  const { buffer } = words;
  const foreign = { ...a.handle, arena: undefined, buffer, offset: 0, stripes: 1 };
  for (const { StripedLock, LockError } of [one, two]) {
    assert.throws(() => StripedLock.from(foreign), LockError);
  }
}

/** Pins of exact keys belong to the thread, so what one unpins the other must look up again. */
function exactKeys(one, two) {
  const a = new one.KeyedLock({ capacity: 64 });
  const b = two.KeyedLock.from(a.handle);
  for (let i = 0; i < 2000; i++) b.acquireSync('key').release();
  for (const lock of [a, b, b]) lock.acquireSync(['key', 'other']).release();
  const guards = Array.from({ length: 64 }, (_, i) => a.acquireSync(i));
  assert.throws(() => a.tryAcquire('key'), one.LockError);
  assert.throws(() => b.tryAcquire('key'), two.LockError);
  assert.throws(() => b.tryAcquire(['key', 'other']), two.LockError);
  guards.pop().release();
  const holder = a.acquireSync('key');
  for (const guard of guards) guard.release();
  assert.equal(b.tryAcquire('key'), undefined);
  assert.equal(b.tryAcquire(['key', 'other']), undefined);
  holder.release();
  // The keys of an acquisition stay pinned while a signal runs code that uses the other's lock.
  const held = a.acquireSync('held');
  const { signal } = new AbortController();
  signal.addEventListener = () => {
    for (let i = 0; i < 1000; i++) b.acquireSync(i).release();
  };
  const waiting = a.acquire(['first', 'held', 'last'], { signal });
  held.release();
  return waiting.then((guard) => {
    for (const key of guard.keys) assert.equal(b.tryAcquire(key), undefined);
    guard.release();
    assert.equal(a.size, 0);
  });
}

async function waits(one, two) {
  const [a, b] = both(one, two);
  const order = [];
  const guard = a.acquireSync('x');
  const waiting = [a, b, b, a].map((lock, i) =>
    lock.withLock(['w', 'x'], () => {
      order.push(i);
    }),
  );
  const late = [a, b].map((lock) => lock.acquire('x', { timeout: 5 }).catch((error) => error));
  const abort = new AbortController();
  const aborted = [a, b].map((lock) => lock.acquire('x', { signal: abort.signal }).catch((reason) => reason));
  const [mine, theirs] = await Promise.all(late);
  assert.ok(mine instanceof one.LockTimeoutError && theirs instanceof two.LockTimeoutError);
  abort.abort('reason');
  assert.deepEqual(await Promise.all(aborted), ['reason', 'reason']);
  assert.equal(a.stats().waiting, 4);
  guard.release();
  await Promise.all(waiting);
  assert.deepEqual(order, [0, 1, 2, 3]);
  // A blocking wait in one takes back grants that the other has not delivered yet.
  const held = a.acquireSync('x');
  const pending = b.acquire('x');
  held.release();
  a.acquireSync('x', { timeout: 1000 }).release();
  (await pending).release();
  assert.deepEqual([a.stats().held, a.stats().waiting], [0, 0]);
}

async function leases(one, two) {
  const a = new one.LeaseManager({ store: new one.MemoryLeaseStore(), ttl: 60_000 });
  const store = two.MemoryLeaseStore.from(a.store.handle);
  const b = new two.LeaseManager({ store, ttl: 60_000 });
  const lease = await a.acquire('job');
  const waiting = b.acquire('job');
  await lease.release();
  await (await waiting).release();
  const { handle } = store;
  for (const { MemoryLeaseStore, LockError } of [one, two]) {
    assert.throws(() => MemoryLeaseStore.from({ ...handle, number: 1e9 }), LockError);
  }
}

if (where === 'worker' && isMainThread) {
  const worker = new Worker(new URL(import.meta.url), { workerData: process.argv.slice(2) });
  const [code] = await once(worker, 'exit');
  process.exitCode = code;
} else {
  await program();
  console.log('both work as one');
}
