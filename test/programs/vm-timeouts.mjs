// Scripts of node:vm that time out while they block for a stripe of another thread, in the main thread or in a worker
// (argument: main or worker). Prints how long each took, as JSON. Throws if one leaves something behind.
import assert from 'node:assert/strict';
import vm from 'node:vm';
import { isMainThread, Worker } from 'node:worker_threads';
import { KeyedLock, StripedLock } from 'stripelock';

/** Milliseconds: how long a script waits if nothing interrupts it. */
const LONG = 20_000;
const TIMEOUT = 100;

class Holder {
  constructor(lock) {
    this.cells = new Int32Array(new SharedArrayBuffer(8));
    this.worker = new Worker(new URL('../workers/hold-until.mjs', import.meta.url), {
      workerData: { handle: lock.handle, cells: this.cells.buffer },
    });
  }
  #await(cell, count) {
    for (;;) {
      const seen = Atomics.load(this.cells, cell);
      if (seen >= count) return;
      assert.notEqual(Atomics.wait(this.cells, cell, seen, LONG), 'timed-out');
    }
  }
  hold(keys, { mode, milliseconds } = {}) {
    const taken = Atomics.load(this.cells, 0) + 1;
    this.worker.postMessage({ keys, mode, milliseconds });
    this.#await(0, taken);
  }
  release() {
    this.worker.postMessage({});
    this.awaitRelease();
  }
  awaitRelease() {
    this.#await(1, Atomics.load(this.cells, 0));
  }
}

/** Milliseconds until the timeout of the script ended it. Throws if anything else did. */
function interrupted(script, sandbox, timeout = TIMEOUT) {
  const start = performance.now();
  assert.throws(() => vm.runInNewContext(script, sandbox, { timeout }), {
    code: 'ERR_SCRIPT_EXECUTION_TIMEOUT',
  });
  return performance.now() - start;
}

function assertHeld(lock, held) {
  const { waiting, abandoned } = lock.stats();
  assert.deepEqual(
    { held: lock.stats().held, waiting, abandoned, inspected: lock.inspect().length },
    { held, waiting: 0, abandoned: 0, inspected: held },
  );
}

async function timeouts(lock, holder) {
  // Each key is on a separate stripe.
  const [key, ...others] = [0, 1, 2, 3];
  assert.equal(new Set([key, ...others].map((each) => lock.stripeOf(each))).size, 4);
  const times = [];
  for (const mode of ['exclusive', 'shared']) {
    holder.hold(key);
    for (const keys of [key, [key, ...others], [...others, key]]) {
      const sandbox = { lock, keys, options: { mode, timeout: LONG } };
      times.push(interrupted('lock.acquireSync(keys, options)', sandbox));
      assertHeld(lock, 1);
      times.push(interrupted('lock.withLockSync(keys, options, () => { throw 1 })', sandbox));
      assertHeld(lock, 1);
    }
    // The thread's own async acquisitions are unchanged.
    const before = lock.acquire([others[0], key], { mode, timeout: LONG });
    times.push(interrupted('lock.acquireSync(key, { timeout: Infinity })', { lock, key }));
    assert.equal(lock.stats().waiting, 1);
    holder.release();
    (await before).release();
    assertHeld(lock, 0);
    // It can block again, and be granted.
    holder.hold(key, { milliseconds: 60 });
    lock.withLockSync([key, ...others], { mode, timeout: LONG }, () => {
      assert.equal(lock.stats().held, 4);
    });
    holder.awaitRelease();
    assertHeld(lock, 0);
  }
  return times;
}

/** Scripts that are ended while an acquisition reads its arguments: idle keys make room as before, at once. */
async function cutWhileReading() {
  const lock = new KeyedLock({ engine: 'native', capacity: 64 });
  const held = lock.acquireSync(['held', 'held too']);
  const endless = (keys) =>
    Object.defineProperty(keys, keys.length, {
      get() {
        for (;;);
      },
    });
  for (const way of ['acquireSync', 'acquire', 'tryAcquire']) {
    interrupted('lock[way](keys)', { lock, way, keys: endless(['cut', 'cut too']) }, 20);
    for (let i = 0; i < 300; i++) {
      lock.acquireSync(`${way} ${i}`).release();
      lock.acquireSync([`${way} ${i} a`, `${way} ${i} b`]).release();
      lock.acquireSync(`${way} ${i} timed`, { timeout: 10 }).release();
    }
    await undefined;
    lock.acquireSync(Array.from({ length: 62 }, (_, i) => `${way} together ${i}`)).release();
  }
  held.release();
}

async function main() {
  const lock = new StripedLock({ engine: 'native' });
  await cutWhileReading();
  const holder = new Holder(lock);
  const times = await timeouts(lock, holder);
  const sandbox = { cell: new Int32Array(new SharedArrayBuffer(4)) };
  const atomics = interrupted(`Atomics.wait(cell, 0, 0, ${LONG})`, sandbox);
  await holder.worker.terminate();
  console.log(JSON.stringify({ times, atomics }));
}

if (isMainThread && process.argv[2] === 'worker') {
  new Worker(new URL(import.meta.url));
} else {
  assert.equal(isMainThread, process.argv[2] === 'main');
  await main();
}
