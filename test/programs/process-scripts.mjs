// Scripts of node:vm that time out, and stacks that overflow, while a thread acquires keys of a file. No grant may be lost.
// Arguments: the path of the lock file, and a scene. Prints what the scene found, as JSON.
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import vm from 'node:vm';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { ProcessLock } from 'stripelock/process';

/** Milliseconds: by then a grant that was not delivered is lost. */
const LOST = 10_000;

function interrupt(script, sandbox, timeout) {
  assert.throws(() => vm.runInNewContext(script, sandbox, { timeout }), {
    code: 'ERR_SCRIPT_EXECUTION_TIMEOUT',
  });
}

/** The number of acquisitions that `close()` would reject. */
function pendingIn(lock) {
  return Number(/pending: (\d+)/.exec(inspect(lock))[1]);
}

/** Whether the key can be had before long. */
async function comesFree(lock, key) {
  const guard = await lock.acquire(key, { timeout: LOST }).catch(() => undefined);
  guard?.release();
  return guard !== undefined;
}

/** A thread that runs {@link hold}, once it holds the keys. */
async function holder(lock, awaited, after) {
  const released = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(new URL(import.meta.url), {
    workerData: { path: lock.path, released, awaited, after },
  });
  await new Promise((resolve) => worker.once('message', resolve));
  return { worker, released };
}

/** The thread blocks for one key while another thread frees the key that its event loop waits for. */
async function wait(lock) {
  const { worker, released } = await holder(lock, 'b', 0);
  const pending = lock.acquire('a', { timeout: Infinity });
  while (Atomics.load(released, 0) === 0)
    interrupt(`lock.acquireSync('b', { timeout: Infinity })`, { lock }, 300);
  const guard = await Promise.race([pending, sleep(LOST, undefined, { ref: false })]);
  await worker.terminate();
  return { granted: guard?.held === true };
}

/** Holds both keys, and frees one of them some milliseconds after the other thread blocks for `awaited`. */
async function hold({ path, released, awaited, after }) {
  const { parentPort } = await import('node:worker_threads');
  const lock = new ProcessLock({ path });
  const a = lock.acquireSync('a');
  lock.acquireSync('b');
  parentPort.postMessage('holds');
  while (!lock.inspect().some(({ key, waiters }) => key === awaited && waiters.length > 0)) await sleep(1);
  await sleep(after);
  a.release();
  Atomics.store(released, 0, 1);
  await sleep(LOST);
}

/** Another thread frees the key after the script that blocks for it has timed out, and before the thread notices. */
async function end(lock) {
  const { worker } = await holder(lock, 'a', 150);
  interrupt(`lock.acquireSync('a', { timeout: Infinity })`, { lock }, 100);
  const free = await comesFree(lock, 'a');
  await worker.terminate();
  return { free };
}

/** A script is ended after its acquisition was queued, before it has the promise. */
async function begin(lock) {
  const held = lock.acquireSync('a');
  const signal = `{ aborted: false, addEventListener() { for (;;); }, removeEventListener() {} }`;
  interrupt(`lock.acquire('a', { timeout: Infinity, signal: ${signal} })`, { lock }, 50);
  held.release();
  return { free: await comesFree(lock, 'a'), pending: pendingIn(lock) };
}

function dive(left, run) {
  return left === 0 ? run() : dive(left - 1, run);
}

function deepest() {
  let low = 0;
  let high = 1_000_000;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    try {
      dive(middle, () => undefined);
      low = middle;
    } catch {
      high = middle;
    }
  }
  return low;
}

const FRAMES = 60;
const WARM_UP = 10;

/** Calls one after the other at each depth near the end of the stack, each with a separate key. */
async function overflow(lock) {
  const counts = { done: 0, failed: 0, lost: [] };
  let key;
  let result;
  const ways = {
    tryAcquire: () => (result = lock.tryAcquire(key)),
    acquireSync: () => (result = lock.acquireSync(key)),
    acquire: () => (result = lock.acquire(key)),
    pending: () => (result = lock.acquire(key)),
    release: () => result.release(),
  };
  const attempt = async (name, call) => {
    key = `${name} ${counts.done + counts.failed}`;
    const held = name === 'pending' || name === 'release' ? lock.acquireSync(key) : undefined;
    const next = name === 'release' ? lock.acquire(key) : undefined;
    result = held;
    try {
      call();
      counts.done++;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      counts.failed++;
    }
    const outcome = result;
    held?.release();
    const guards = await Promise.allSettled([outcome, next]);
    for (const { value } of guards) value?.release();
    await turn();
    if (lock.inspect().some((state) => state.key === key)) counts.lost.push(key);
    if (pendingIn(lock) > 0) counts.lost.push(`pending: ${key}`);
  };
  for (const [name, way] of Object.entries(ways)) {
    for (let i = 0; i < WARM_UP; i++) await attempt(name, way);
    const end = deepest();
    for (let frames = 0; frames < FRAMES; frames++) await attempt(name, () => dive(end - frames, way));
  }
  return counts;
}

if (!isMainThread) {
  await hold(workerData);
} else {
  const [, , path, scene] = process.argv;
  const lock = new ProcessLock({ path });
  console.log(JSON.stringify(await { wait, end, begin, overflow }[scene](lock)));
  process.exit();
}
