// Locks, as a program uses them, between this thread and others.

import { StripedLock } from 'stripelock';
import { check, codeOf, finished, patience, start, until } from './support.mjs';

const rounds = 5000;

export async function asyncLocks() {
  const lock = new StripedLock();
  const guard = await lock.acquire('a');
  check((await codeOf(() => lock.acquire('a', { timeout: 10 }))) === 'ERR_LOCK_TIMEOUT', 'no timeout');
  const aborted = codeOf(() => lock.acquire('a', { signal: AbortSignal.timeout(10) }));
  check(String(await aborted).length > 0, 'no abort');

  const { message } = start('block', { handle: lock.handle });
  await message();
  await until(() => lock.stats().waiting === 1, 'the thread does not wait');
  // Whichever of the two is granted the key first, the other follows.
  const next = lock.acquire('a', { timeout: patience }).then((held) => held.release());
  guard.release();
  check((await message()) === 'granted', 'the blocked thread got nothing');
  await next;
  check((await lock.withLock('a', async (held) => held.held)) === true, 'the guard is not held');
  check(lock.stats().held === 0, 'something is still held');
}

export async function syncLocks() {
  const lock = new StripedLock();
  const guard = lock.acquireSync('a');
  check(lock.tryAcquire('a') === undefined, 'one key was granted twice');
  check((await codeOf(() => lock.acquireSync('a'))) === 'ERR_LOCK_DEADLOCK', 'waits for itself');

  const { message } = start('cross', { handle: lock.handle });
  await message();
  await until(() => lock.stats().waiting === 1, 'the thread does not wait');
  // Each would wait for the other: one of them is refused, whichever looks first.
  const mine = await codeOf(() => lock.acquireSync('b', { timeout: patience }).release());
  guard.release();
  const codes = [mine, await message()];
  check(codes.filter((code) => code === 'ERR_LOCK_DEADLOCK').length === 1, `not refused: ${codes.join()}`);
  check(lock.withLockSync('a', () => 7) === 7, 'the result is lost');

  const holder = start('hold', { handle: lock.handle });
  await holder.message();
  const began = performance.now();
  check((await codeOf(() => lock.acquireSync('a', { timeout: 30 }))) === 'ERR_LOCK_TIMEOUT', 'no timeout');
  check(performance.now() - began >= 29, 'the timeout came too early');
}

export async function severalKeys() {
  const lock = new StripedLock({ stripes: 1_048_576 });
  const guard = lock.acquireSync(['a', 17, new Uint8Array([1, 2])]);
  check(guard.stripes.length === 3, `${guard.stripes.length} stripes`);
  check(lock.tryAcquire(['free', 17]) === undefined, 'granted though one key is held');
  check(lock.stats().held === 3, 'a refused acquisition kept something');
  const waiting = lock.acquire(['free', 'a'], { timeout: patience });
  guard.release();
  (await waiting).release();
  check(lock.stats().held === 0, 'something is still held');
}

export async function sharedMode() {
  const lock = new StripedLock();
  const { worker, message } = start('holdShared', { handle: lock.handle });
  await message();
  const reader = lock.tryAcquire('a', { mode: 'shared' });
  check(reader !== undefined, 'two readers exclude each other');
  check(lock.tryAcquire('a') === undefined, 'a writer got in');
  reader.release();
  const writer = lock.acquire('a', { timeout: patience });
  worker.postMessage('release');
  const guard = await writer;
  check(guard.mode === 'exclusive' && guard.held, 'the writer holds nothing');
  guard.release();
}

/** @param {'native' | 'javascript'} engine */
async function count(engine) {
  const lock = new StripedLock({ engine, timeout: patience });
  const cells = new Int32Array(new SharedArrayBuffer(8));
  const data = { handle: lock.handle, cells, rounds };
  const workers = [start('countSync', data), start('countSync', data), start('countAsync', data)];
  const done = Promise.all(workers.map(({ message }) => message()));
  await done;
  check(cells[0] === 3 * rounds, `counted ${cells[0]} instead of ${3 * rounds}`);
}

export const workersCount = () => count('native');
export const javascriptEngine = () => count('javascript');

export async function pendingKeepsAlive() {
  finished.byItself = true;
  const lock = new StripedLock();
  const guard = lock.acquireSync('a');
  // Nothing else keeps the event loop alive: if the acquisition did not, the process would end here.
  const code = await codeOf(() => lock.acquire('a', { timeout: 100 }));
  check(code === 'ERR_LOCK_TIMEOUT', String(code));
  guard.release();
  // The process ends now, although the lock is open. A host that does not end it is killed.
}
