// Makes locks, waits for them asynchronously, and drops them. They must be collected. Needs --expose-gc. Prints how
// many are left, and how many there were.
import { StripedLock } from 'stripelock';

const LOCKS = 300;
/** Milliseconds: far longer than it takes, as the machine may be busy. */
const PATIENCE = 20_000;
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function use() {
  const lock = new StripedLock({ engine: 'javascript' });
  const reader = lock.acquireSync('key', { mode: 'shared' });
  const granted = lock.acquire('key');
  const failed = lock.acquire('key', { timeout: 5 }).catch((error) => error.code);
  reader.release();
  const guard = await granted;
  if ((await failed) !== 'ERR_LOCK_TIMEOUT') throw new Error('it should have timed out');
  guard.release();
  return new WeakRef(lock.handle.buffer);
}

const buffers = await Promise.all(Array.from({ length: LOCKS }, use));
let left = LOCKS;
for (const end = performance.now() + PATIENCE; left > 0 && performance.now() < end;) {
  await pause(20);
  globalThis.gc();
  left = buffers.filter((buffer) => buffer.deref() !== undefined).length;
}
console.log(`${left} of ${LOCKS}`);
