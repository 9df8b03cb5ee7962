// The contract of lease stores under node:test, which has no expect, on the installation of the package whose folder is
// the argument. Then prints what a thread gets when it opens the handle of another one.
import path from 'node:path';
import { describe, it, test } from 'node:test';
import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { once } from 'node:events';

const entry = (name) => pathToFileURL(path.join(process.argv[2], 'dist', name)).href;
const { FencingGate, MemoryLeaseStore } = await import(entry('index.mjs'));
const { FixedClock, leaseStoreContract } = await import(entry('testing.mjs'));
const addon = process.argv[3] === 'with-addon';

leaseStoreContract({ describe, it }, 'memory store', () => {
  const clock = new FixedClock();
  return {
    store: new MemoryLeaseStore({ clock }),
    advance: (milliseconds) => clock.advance(milliseconds),
    keepsInfo: true,
    reportsAbandonment: true,
  };
});

const thread = `
  const { parentPort, workerData } = require('node:worker_threads');
  const codeOf = (open) => { try { return open() && 'opened'; } catch (error) { return error.code; } };
  import(workerData.entry).then(({ FencingGate, MemoryLeaseStore }) => parentPort.postMessage([
    codeOf(() => MemoryLeaseStore.from(workerData.store)), codeOf(() => FencingGate.from(workerData.gate)),
  ]));
`;

test('another thread opens handles where the addon is, and is refused where it is not', async () => {
  const [store, gate] = [new MemoryLeaseStore(), new FencingGate()];
  const workerData = { entry: entry('index.mjs'), store: store.handle, gate: gate.handle };
  const [answer] = await once(new Worker(thread, { eval: true, workerData }), 'message');
  assert.deepEqual(answer, addon ? ['opened', 'opened'] : ['ERR_LOCK_ENGINE', 'ERR_LOCK_ENGINE']);
  assert.equal(MemoryLeaseStore.from(store.handle).size, 0);
  assert.equal(FencingGate.from(gate.handle).size, 0);
});
