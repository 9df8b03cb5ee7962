// Contended calls for `test/programs/stack-limit.mjs`: each scene is set up with room on the stack, makes one call near a
// stack overflow, and is then looked at: who holds what, who waits, and who was served.

import { setImmediate as turn } from 'node:timers/promises';
import { DeadlockError, LockTimeoutError } from 'stripelock';
import { isOverflow, LONG, outcomeOf } from './scene.mjs';

const SHORT = 1;

const isTimeout = (error) => error instanceof LockTimeoutError;
const isDeadlock = (error) => error instanceof DeadlockError;

/** Prepares a release, and who waits for it. */
function releasing(hold, wait) {
  return (scene) => {
    const guard = hold(scene);
    wait(scene);
    return { call: () => guard.release() };
  };
}

/** Prepares an acquisition that has to wait, between one that waits before it and one that waits after it. */
function acquiring(held, call) {
  return (scene) => {
    scene.holds(held);
    scene.waits(held);
    return {
      call: () => call(scene.lock),
      after: (promise) => {
        scene.mayWait(promise);
        scene.waits(held);
      },
    };
  };
}

/** Prepares one that fails: it leaves nothing behind, and those who wait do not notice. */
function failing(held, call, mayThrow) {
  return (scene) => {
    scene.holds(held);
    scene.waits(held);
    return {
      call: () => call(scene.lock),
      mayThrow,
      after: (result) => {
        if (result instanceof Promise) scene.mayWait(result, mayThrow);
        else if (result) scene.problem('a stripe was acquired that is held');
      },
    };
  };
}

/** Those that wait, in this order. */
const waiters =
  (...all) =>
  (scene) => {
    for (const [keys, mode] of all) scene.waits(keys, mode);
  };

/** The signal is Node's own, and may overflow before it tells anybody. */
const aborting = (a, b) => (scene) => {
  scene.holds(a);
  scene.waits(a);
  const controller = new AbortController();
  const reason = new Error('aborted');
  const options = { ...LONG, signal: controller.signal };
  scene.mayWait(scene.lock.acquire(a, options), (error) => error === reason);
  scene.mayWait(scene.lock.acquire([a, b], options), (error) => error === reason);
  scene.waits(a);
  return { call: () => controller.abort(reason) };
};

/** One whose time runs out, and a later one of the same thread. */
const timingOut = (key) => (scene) => {
  const guard = scene.holds(key);
  return {
    call: () => scene.lock.acquire(key, { timeout: SHORT }),
    after: async (promise) => {
      scene.mayWait(promise, isTimeout);
      const outcome = await outcomeOf(scene.lock.acquire(key, { timeout: SHORT }));
      if (!isTimeout(outcome)) scene.problem(`a later acquisition does not time out: ${outcome}`);
      guard.release();
    },
  };
};

/** What is released at the end of the call is granted to an acquisition of this thread that began in it. */
const releasingWithin = (key) => (scene) => {
  let promise;
  return {
    call: () => scene.lock.withLockSync(key, () => void (promise = scene.lock.acquire(key, LONG))),
    after: () => scene.mayWait(promise),
  };
};

/** Whether the function runs or not, once is all. */
const withLock = (key) => (scene) => {
  scene.holds(key);
  let runs = 0;
  const run = (guard) => {
    scene.has(guard);
    runs++;
  };
  return {
    call: () => scene.lock.withLock(key, LONG, run),
    after: (promise) => {
      scene.mayWait(promise);
      scene.waits(key);
    },
    atEnd: async (promise) => {
      const failed = !promise || isOverflow(await promise.catch((error) => error));
      if (runs !== (failed ? 0 : 1)) scene.problem(`withLock ran its function ${runs} times`);
    },
  };
};

/** By name: what sets a scene up. See {@link playScene}. Keys: on different stripes, in the order of their stripes. */
export const makeScenes = ([a, b, c, d]) => ({
  'release to one': releasing((scene) => scene.holds(a), waiters([a])),
  'release to several': releasing((scene) => scene.holds(a), waiters([a], [a], [[a, b]], [a])),
  'release of several': releasing(
    (scene) => scene.holds([a, b, c, d]),
    waiters([a], [b], [[a, b, c, d]], [d]),
  ),
  'release to shared': releasing((scene) => scene.holds(a), waiters([a, 'shared'], [a, 'shared'], [a])),
  'release of shared': releasing(
    (scene) => {
      scene.holds([a, b], 'shared').release();
      return scene.holds([a, b], 'shared');
    },
    waiters([a], [b, 'shared'], [[a, b]]),
  ),
  'acquire one': acquiring(a, (lock) => lock.acquire(a)),
  'acquire several': acquiring(c, (lock) => lock.acquire([a, b, c, d], LONG)),
  'acquire shared': acquiring(c, (lock) => lock.acquire([a, b, c, d], { ...LONG, mode: 'shared' })),
  'acquire at once': failing(c, (lock) => lock.acquire([a, b, c, d], { timeout: 0 }), isTimeout),
  'acquire in time': timingOut(a),
  tryAcquire: failing(c, (lock) => lock.tryAcquire([a, b, c, d])),
  'tryAcquire shared': failing(c, (lock) => lock.tryAcquire([a, b, c, d], { mode: 'shared' })),
  'acquireSync at once': failing(c, (lock) => lock.acquireSync([a, b, c, d], { timeout: 0 }), isTimeout),
  'acquireSync of its own': failing(c, (lock) => lock.acquireSync([a, b, c, d]), isDeadlock),
  'withLockSync of its own': failing(c, (lock) => lock.withLockSync([a, c], () => undefined), isDeadlock),
  'withLockSync to one': releasingWithin(a),
  withLock: withLock(a),
  abort: aborting(a, b),
});

/** With another thread that holds `key`; see `test/workers/hand-over.mjs`. */
export const makeThreadScenes = ([a, key], cells) => {
  const handed = (call) => async (scene) => {
    while (Atomics.load(cells, 1) !== 1) await turn();
    return {
      call: () => {
        Atomics.store(cells, 0, 1);
        Atomics.notify(cells, 0, 1);
        return call(scene.lock);
      },
      after: (guard) => {
        if (guard instanceof Promise) scene.mayWait(guard);
        else guard?.release();
      },
      atEnd: async () => {
        // Where the call overflowed first, it was not asked.
        if (Atomics.load(cells, 0) === 0) return;
        while (Atomics.load(cells, 1) !== 0) await turn();
        Atomics.store(cells, 0, 0);
        Atomics.notify(cells, 0, 1);
        while (Atomics.load(cells, 1) !== 1) await turn();
      },
      heldByOthers: 1,
    };
  };
  return {
    'acquireSync in time': async (scene) => {
      while (Atomics.load(cells, 1) !== 1) await turn();
      return {
        call: () => scene.lock.acquireSync([a, key], { timeout: SHORT }),
        mayThrow: isTimeout,
        heldByOthers: 1,
      };
    },
    'acquireSync of one': handed((lock) => lock.acquireSync(key, LONG)),
    'acquireSync of several': handed((lock) => lock.acquireSync([a, key], LONG)),
    'acquireSync of shared': handed((lock) => lock.acquireSync([a, key], { ...LONG, mode: 'shared' })),
    'acquire from another thread': handed((lock) => lock.acquire([a, key], LONG)),
  };
};

/**
 * Plays a scene: `setUp` returns the `call` to make near the overflow, what it `mayThrow` but an overflow, what comes
 * `after` it, with what it returned, and what is to be looked at in the end, and how many stripes others hold then.
 * False: the lock is of no more use.
 */
export async function playScene(scene, setUp, descend) {
  const { call, mayThrow = () => false, after, atEnd, heldByOthers = 0 } = await setUp(scene);
  const { error, result } = descend(call);
  if (error && !isOverflow(error) && !mayThrow(error)) scene.problem(String(error));
  await after?.(result);
  if (!(await scene.end(() => atEnd?.(result), heldByOthers))) return false;
  return true;
}
