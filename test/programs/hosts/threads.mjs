// Threads that end, in every way, while they hold a key or wait for one.

import { StripedLock } from 'stripelock';
import { check, patience, start, until } from './support.mjs';

/** Longer than any host takes that ends a thread at all. */
const termination = 6000;

/** @param {StripedLock} lock */
async function expectAbandoned(lock) {
  const guard = await lock.acquire('a', { timeout: patience });
  check(guard.abandoned, 'the next holder is not told');
  guard.release();
  check(lock.stats().abandoned === 1, `${lock.stats().abandoned} stripes were freed instead of 1`);
}

export async function deadHolder() {
  const lock = new StripedLock();
  const terminated = start('hold', { handle: lock.handle });
  await terminated.message();
  check(lock.tryAcquire('a') === undefined, 'two threads hold one key');
  await terminated.worker.terminate();
  await expectAbandoned(lock);

  const other = new StripedLock();
  const { message } = start('holdAndEnd', { handle: other.handle });
  await message();
  await expectAbandoned(other);
}

export async function exitedHolder() {
  const lock = new StripedLock();
  const { worker, message } = start('holdAndExit', { handle: lock.handle });
  await message();
  worker.postMessage('exit');
  await expectAbandoned(lock);
}

export async function terminatedBlocked() {
  const lock = new StripedLock();
  const guard = lock.acquireSync('a');
  const { worker, message } = start('block', { handle: lock.handle });
  await message();
  await until(() => lock.stats().waiting === 1, 'the thread does not wait');
  await worker.terminate();
  await until(() => lock.stats().waiting === 0, 'a terminated thread still waits', termination);
  guard.release();
  lock.acquireSync('a', { timeout: patience }).release();
}

/** A host that ends the thread too late may grant it the key first. */
export async function terminatedWaiter() {
  const lock = new StripedLock();
  const guard = lock.acquireSync('a');
  const { worker, message } = start('blockAndKeep', { handle: lock.handle });
  await message();
  await until(() => lock.stats().waiting === 1, 'the thread does not wait');
  await worker.terminate();
  guard.release();
  (await lock.acquire('a', { timeout: patience })).release();
  check(lock.stats().held === 0, 'something is still held');
}

export async function terminatedBusy() {
  const cells = new Int32Array(new SharedArrayBuffer(8));
  const { worker, message } = start('spin', { cells });
  await message();
  await until(() => Atomics.load(cells, 0) > 0, 'the loop does not run');
  await worker.terminate();
  let before = -1;
  let at = performance.now();
  await until(
    () => {
      // Longer than a thread that can run waits for a processor, on a machine that has more to do than it can.
      if (performance.now() - at < 1500) return false;
      at = performance.now();
      const now = Atomics.load(cells, 0);
      const stopped = now === before;
      before = now;
      return stopped;
    },
    'a terminated thread still runs',
    termination,
  );
}
