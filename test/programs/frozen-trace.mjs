// A traced lock where stack traces cannot be made longer. Argument: the engine.
import assert from 'node:assert/strict';
import { StripedLock } from 'stripelock';

if (!process.execArgv.includes('--frozen-intrinsics'))
  Object.defineProperty(Error, 'stackTraceLimit', { value: 10, writable: false });
const lock = new StripedLock({ engine: process.argv[2], trace: true });
for (const keys of ['a', ['a', 'b']]) {
  lock.tryAcquire(keys).release();
  lock.acquireSync(keys).release();
  (await lock.acquire(keys)).release();
}
const guard = lock.acquireSync('a');
assert.match(lock.inspect()[0].holders[0].acquiredAt, /frozen-trace\.mjs/);
const waiting = lock.acquire('a');
guard.release();
(await waiting).release();
assert.deepEqual(lock.inspect(), []);
