// A script of node:vm that blocks, and that Ctrl+C ends. Says when it is about to block; prints how it ended.
import assert from 'node:assert/strict';
import { writeSync } from 'node:fs';
import vm from 'node:vm';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { StripedLock } from 'stripelock';

const lock = new StripedLock({ engine: 'native' });
const cells = new SharedArrayBuffer(8);
const holder = new Worker(new URL('../workers/hold-until.mjs', import.meta.url), {
  workerData: { handle: lock.handle, cells },
});
await once(holder, 'online');
holder.postMessage({ keys: 'key' });
Atomics.wait(new Int32Array(cells), 0, 0);

const say = () => writeSync(1, 'blocks\n');
assert.throws(
  () =>
    vm.runInNewContext(
      'say(); lock.acquireSync("key", { timeout: Infinity })',
      { lock, say },
      { breakOnSigint: true },
    ),
  { code: 'ERR_SCRIPT_EXECUTION_INTERRUPTED' },
);
const { held, waiting } = lock.stats();
assert.deepEqual({ held, waiting }, { held: 1, waiting: 0 });
lock.withLockSync('another', () => undefined);
await holder.terminate();
assert.equal(lock.acquireSync('key').abandoned, true);
writeSync(1, 'ended\n');
