// @ts-check
// A lock that is garbage-collected, and another with its name. Prints what is collected while the first is open, afterwards,
// and while the second is. With 'late' the first is used before anything is collected.
import { KeyedLock } from 'stripelock';
import { collect } from 'stripelock/metrics';

const { gc } = /** @type {{ gc: () => void }} */ (/** @type {unknown} */ (globalThis));
const turn = () => new Promise((resolve) => setImmediate(resolve));
const current = () => collect().find(({ name }) => name === 'collected');

async function wait() {
  const lock = new KeyedLock({ name: 'collected' });
  const guard = lock.acquireSync('key');
  const next = lock.acquire('key');
  await turn();
  guard.release();
  (await next).release();
  return lock;
}

async function useOne() {
  const lock = await wait();
  return lock.name === 'collected' ? current() : undefined;
}

if (process.argv[2] !== 'late') collect();
const open = await useOne();
while (current()?.locks !== 0) {
  await turn();
  gc();
}
const closed = current();
const lock = await wait();
const again = current();
console.log(JSON.stringify([open, closed, again, lock.name]));
