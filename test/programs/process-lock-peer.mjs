// Another process with a `ProcessLock`, which does what messages ask for and answers each.

import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { LeaderElection } from 'stripelock';
import { ProcessLock } from 'stripelock/process';

const [path, files, limit] = process.argv.slice(2);
const lock = /** @type {ProcessLock} */ (await open());
/** @type {import('stripelock/process').ProcessGuard[]} */
const guards = [];
/** @type {Worker[]} */
const workers = [];
/** @type {LeaderElection<ProcessLock> | undefined} */
let election;
/** The guard of the last term. @type {import('stripelock/process').ProcessGuard | undefined} */
let elected;

function open() {
  try {
    return new ProcessLock({
      path: /** @type {string} */ (path),
      timeout: 20_000,
      files: number(files),
      limit: number(limit),
    });
  } catch (error) {
    const { code } = /** @type {any} */ (error);
    process.send?.({ id: -1, error: { code, message: String(error) } }, () => process.exit());
    return new Promise(() => undefined);
  }
}

/** @param {string | undefined} text */
function number(text) {
  return text === undefined || text === '' ? undefined : Number(text);
}

/** @param {import('stripelock/process').ProcessGuard | undefined} guard */
function keep(guard) {
  if (guard === undefined) return undefined;
  guards.push(guard);
  return { abandoned: guard.abandoned, token: String(guard.token) };
}

/** @type {Record<string, (...args: any[]) => unknown>} */
const actions = {
  acquire: async (keys, options) => keep(await lock.acquire(keys, options)),
  acquireSync: (keys, options) => keep(lock.acquireSync(keys, options)),
  tryAcquire: (keys, options) => keep(lock.tryAcquire(keys, options)),
  /** One guard for each key. */
  acquireEach: (keys, options) => {
    for (const key of keys) keep(lock.acquireSync(key, options));
  },
  acquireAll: (keys, options) =>
    Promise.all(keys.map((/** @type {string} */ key) => lock.acquire(key, options))),
  /** Acquires and releases at once. */
  pass: (keys, options = {}) => lock.withLock(keys, options, () => undefined),
  passSync: (keys, options = {}) => lock.withLockSync(keys, options, () => undefined),
  releaseAll: () => {
    for (const guard of guards.splice(0)) guard.release();
  },
  /** Begins to wait, and blocks the event loop as soon as the grant may come. */
  acquireAndBlock: (keys, milliseconds) => {
    void lock.acquire(keys).then((guard) => guards.push(guard));
    setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds));
  },
  inspect: () => lock.inspect(),
  holdInThread: async (key) => {
    const worker = new Worker(new URL('../workers/process-lock-thread.mjs', import.meta.url), {
      workerData: { path, key, limit: number(limit) },
    });
    workers.push(worker);
    await new Promise((resolve) => worker.once('message', resolve));
  },
  endThreads: () => Promise.all(workers.splice(0).map((worker) => worker.terminate())),
  // Takes and gives back for a while, as fast as it can. Answers how often.
  hammer: async (key, milliseconds, way) => {
    let count = 0;
    for (const end = performance.now() + milliseconds; performance.now() < end; count++) {
      if (way === 'sync') lock.acquireSync(key).release();
      else (await lock.acquire(key)).release();
    }
    return count;
  },
  stand: (name) => {
    const onElected = (/** @type {import('stripelock/process').ProcessGuard} */ guard) =>
      void (elected = guard);
    election = new LeaderElection(lock, name, { onElected });
    election.start();
  },
  /** Undefined if it does not lead. */
  leads: () =>
    election?.leading ? { abandoned: elected?.abandoned, token: String(elected?.token) } : undefined,
  resign: () => election?.resign(),
  sleep: (milliseconds) => sleep(milliseconds),
  end: () => process.disconnect(),
};

process.on(
  'message',
  async (/** @type {{ id: number, action: string, args: unknown[] }} */ { id, action, args }) => {
    let answer;
    try {
      answer = { id, result: await actions[action]?.(...args) };
    } catch (error) {
      answer = { id, error: { code: /** @type {any} */ (error).code, message: String(error) } };
    }
    if (process.connected) process.send?.(answer);
  },
);
process.send?.({ id: -1 });
