// A KeyedLock on the JavaScript engine while code that uses it is ended at any moment. Argument: `terminated`, for threads,
// or `cut`, for scripts of node:vm. Prints what happened, as JSON. It hangs where an end leaves the lock unusable.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import vm from 'node:vm';
import { Worker } from 'node:worker_threads';
import { KeyedLock } from 'stripelock';

const ROUNDS = 20;
const lock = new KeyedLock({ engine: 'javascript', limit: 2 });

async function use(round) {
  const keys = [`used ${round}`, 'common'];
  const guards = [lock.acquireSync(keys), lock.acquireSync(keys)];
  const waiting = lock.acquire('common');
  for (const guard of guards) guard.release();
  (await waiting).release();
}

async function terminated() {
  const openings = new Set();
  for (let round = 0; round < ROUNDS; round++) {
    const workers = Array.from(
      { length: 2 },
      () =>
        new Worker(new URL('../workers/keyed-churn.mjs', import.meta.url), {
          workerData: { handle: lock.handle },
        }),
    );
    for (const [opening] of await Promise.all(workers.map((worker) => once(worker, 'message'))))
      openings.add(opening);
    await delay(round % 7);
    await Promise.all(workers.map((worker) => worker.terminate()));
    await use(round);
  }
  return { openings: [...openings], held: lock.size };
}

/** The guard of an acquisition that was cut off before the script had its promise. */
process.on('unhandledRejection', (error) => assert.equal(error.code, 'ERR_LOCK_TIMEOUT'));

/** A script that is cut while it holds keys leaves them held. */
async function cut() {
  let cuts = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const script = `for (let i = 0; ; i++) {
      const [a, b, c] = ['a', 'b', 'c'].map((name) => name + ${round} + ' ' + i);
      lock.acquireSync([a, b]).release();
      const guards = [lock.acquireSync(b), lock.acquireSync(b)];
      waits.push(lock.acquire([a, b, c], { timeout: 1 }).catch(() => undefined));
      for (const guard of guards) guard.release();
    }`;
    const waits = [];
    try {
      vm.runInNewContext(script, { lock, waits }, { timeout: 5 + (round % 7) });
    } catch (error) {
      assert.equal(error.code, 'ERR_SCRIPT_EXECUTION_TIMEOUT');
      cuts++;
    }
    for (const guard of await Promise.all(waits)) guard?.release();
    await use(round);
  }
  assert.ok(lock.size <= 3 * ROUNDS, `${lock.size} keys are held`);
  return { cuts };
}

console.log(JSON.stringify(await { terminated, cut }[process.argv[2]]()));
