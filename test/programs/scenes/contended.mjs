// The scenes of `test/programs/stack-limit.mjs` in which somebody waits. See `test/programs/scenes/scene.mjs`.

import { setImmediate as turn } from 'node:timers/promises';
import { DeadlockError, LockTimeoutError } from 'stripelock';
import { LONG, outcomeOf } from './scene.mjs';

/** Milliseconds, for timeouts that pass. */
const SHORT = 1;

const isTimeout = (error) => error instanceof LockTimeoutError;
const isDeadlock = (error) => error instanceof DeadlockError;

/** Prepares a release, and its waiters. */
function releasing(hold, wait) {
  return (scene) => {
    const guard = hold(scene);
    wait(scene);
    return { call: () => guard.release() };
  };
}

/** Prepares an acquisition that has to wait, with one waiter before it and one after it. */
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

/** Prepares an acquisition that fails: it leaves nothing behind, and does not affect waiters. */
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

/** Starts waiters, in this order. */
const waiters =
  (...all) =>
  (scene) => {
    for (const [keys, mode] of all) scene.waits(keys, mode);
  };

/** The same for functions of `withLock`. */
const functions =
  (...keys) =>
  (scene) => {
    for (const key of keys) scene.runs(key);
  };

/** Prepares an acquisition that times out; a later one of the same thread must time out, too. */
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

/** The call hands a stripe over within this thread, which then blocks, so that the waiter cannot have it yet. */
const releasingAndBlocking = (a, b, wait) => (scene) => {
  const guard = scene.holds(a);
  scene.holds(b);
  wait(scene);
  return {
    call: () => {
      guard.release();
      scene.lock.acquireSync(b, LONG);
    },
    mayThrow: isDeadlock,
  };
};

/** Set-ups of scenes by name. See `playScene`. The keys are on different stripes, in the order of these. */
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
  // Last, as they have V8 optimize what releases, which then takes less of the stack.
  'release in a crowd that also waits for others': releasing(
    (scene) => scene.holds([a, b]),
    waiters([a], [a], [b], [[a, b]], [b], [a]),
  ),
  'release in a crowd before the thread blocks': releasingAndBlocking(a, b, waiters([a], [a], [a])),
  'release to functions': releasing((scene) => scene.holds(a), functions(a, a, a)),
  'release to functions before the thread blocks': releasingAndBlocking(a, b, functions(a, a, a)),
});

/** Set-ups with another thread that holds `key`; see `test/workers/hand-over.mjs`. */
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
        // The call overflowed before it asked for the key.
        if (Atomics.load(cells, 0) === 0) return;
        // It may have overflowed in its notification.
        Atomics.notify(cells, 0, 1);
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
