// The loops of the uncontended workloads. Each makes a function that does an operation `count` times.
//
// Between acquiring and releasing, each loop counts in memory, so that operations can be verified and the compiler
// cannot remove the work. For the same reason the keys come from an array, even if there is only one.
//
// The loops are written out, and each method is called by its name on the lock. A call through a variable or a helper
// costs as much as some of the operations measured here, and users do not write such calls.

import { randomFrom } from '../../test/workers/random.mjs';

/**
 * The 64 keys of the `Fresh` loops, which build the text anew each time, as programs do with the keys of rows and
 * users.
 */
const FRESH_KEYS = 64;

/** Indexes that the loops with new combinations of keys draw before they start, minus 1. A mask. */
const DRAWN = 2 ** 18 - 1;

/** @param {readonly unknown[]} keys */
function drawIndexes(keys) {
  const random = randomFrom(keys.length);
  return Uint32Array.from({ length: DRAWN + 1 }, () => Math.floor(random() * keys.length));
}

/**
 * @callback Loop
 * @param {import('../subjects/index.mjs').Lock} lock
 * @param {any[]} keys Lists of keys, where several are taken at once.
 * @param {Float64Array} counter
 * @returns {import('../subjects/index.mjs').Batch}
 */

/** @type {Record<string, Loop>} */
export const loops = {
  sync(lock, keys, counter) {
    let at = 0;
    return (count) => {
      for (let i = 0; i < count; i++) {
        const held = lock.acquireSync(keys[at]);
        counter[0]++;
        lock.release(held);
        if (++at === keys.length) at = 0;
      }
    };
  },

  syncMany(lock, lists, counter) {
    let at = 0;
    return (count) => {
      for (let i = 0; i < count; i++) {
        const held = lock.acquireManySync(lists[at]);
        counter[0]++;
        lock.release(held);
        if (++at === lists.length) at = 0;
      }
    };
  },

  /** Two keys of many, in a new list each time. */
  syncPairs(lock, keys, counter) {
    const draws = drawIndexes(keys);
    let at = 0;
    return (count) => {
      for (let i = 0; i < count; i++) {
        const held = lock.acquireManySync([keys[draws[at]], keys[draws[at + 1]]]);
        counter[0]++;
        lock.release(held);
        at = (at + 2) & DRAWN;
      }
    };
  },

  /** Eight keys of many, in a new list each time. */
  syncEights(lock, keys, counter) {
    const draws = drawIndexes(keys);
    let at = 0;
    return (count) => {
      for (let i = 0; i < count; i++) {
        const held = lock.acquireManySync([
          keys[draws[at]],
          keys[draws[at + 1]],
          keys[draws[at + 2]],
          keys[draws[at + 3]],
          keys[draws[at + 4]],
          keys[draws[at + 5]],
          keys[draws[at + 6]],
          keys[draws[at + 7]],
        ]);
        counter[0]++;
        lock.release(held);
        at = (at + 8) & DRAWN;
      }
    };
  },

  /** One key of many, drawn like the pairs, which it is compared with. */
  syncSingles(lock, keys, counter) {
    const draws = drawIndexes(keys);
    let at = 0;
    return (count) => {
      for (let i = 0; i < count; i++) {
        const held = lock.acquireSync(keys[draws[at]]);
        counter[0]++;
        lock.release(held);
        at = (at + 1) & DRAWN;
      }
    };
  },

  syncShared(lock, keys, counter) {
    return (count) => {
      for (let i = 0; i < count; i++) {
        const held = lock.acquireSharedSync(keys[i & 1]);
        counter[0]++;
        lock.release(held);
      }
    };
  },

  syncFresh(lock, _keys, counter) {
    return (count) => {
      for (let i = 0; i < count; i++) {
        const held = lock.acquireSync(`account:${1_000_000 + (i % FRESH_KEYS)}`);
        counter[0]++;
        lock.release(held);
      }
    };
  },

  try(lock, keys, counter) {
    let at = 0;
    return (count) => {
      for (let i = 0; i < count; i++) {
        const held = lock.tryAcquire(keys[at]);
        counter[0]++;
        lock.release(held);
        if (++at === keys.length) at = 0;
      }
    };
  },

  tryMany(lock, lists, counter) {
    return (count) => {
      for (let i = 0; i < count; i++) {
        const held = lock.tryAcquireMany(lists[i & 1]);
        counter[0]++;
        lock.release(held);
      }
    };
  },

  tryShared(lock, keys, counter) {
    return (count) => {
      for (let i = 0; i < count; i++) {
        const held = lock.tryAcquireShared(keys[i & 1]);
        counter[0]++;
        lock.release(held);
      }
    };
  },

  tryFresh(lock, _keys, counter) {
    return (count) => {
      for (let i = 0; i < count; i++) {
        const held = lock.tryAcquire(`account:${1_000_000 + (i % FRESH_KEYS)}`);
        counter[0]++;
        lock.release(held);
      }
    };
  },

  /** The fastest way that the subject offers: no callback is created if it returns what it holds. */
  async(lock, keys, counter) {
    if (lock.acquire === undefined) return loops.run(lock, keys, counter);
    let at = 0;
    return async (count) => {
      for (let i = 0; i < count; i++) {
        const held = await lock.acquire(keys[at]);
        counter[0]++;
        lock.release(held);
        if (++at === keys.length) at = 0;
      }
    };
  },

  asyncMany(lock, lists, counter) {
    if (lock.acquireMany === undefined)
      return callbacks((list, section) => lock.runMany(list, section))(lists, counter);
    return async (count) => {
      for (let i = 0; i < count; i++) {
        const held = await lock.acquireMany(lists[i & 1]);
        counter[0]++;
        lock.release(held);
      }
    };
  },

  asyncShared(lock, keys, counter) {
    if (lock.acquireShared === undefined)
      return callbacks((key, section) => lock.runShared(key, section))(keys, counter);
    return async (count) => {
      for (let i = 0; i < count; i++) {
        const held = await lock.acquireShared(keys[i & 1]);
        counter[0]++;
        lock.release(held);
      }
    };
  },

  /** The subject has its own loop; a floor waits as it would for a lock. */
  own: (lock, keys, counter) =>
    lock.loop === undefined ? loops.async(lock, keys, counter) : lock.loop(counter),

  /** A callback that returns nothing. */
  runPlain(lock, keys, counter) {
    const section = () => void counter[0]++;
    return async (count) => {
      for (let i = 0; i < count; i++) await lock.run(keys[i & 1], section);
    };
  },

  /** The same with a signal that is never aborted. */
  runSignal(lock, keys, counter) {
    const section = () => void counter[0]++;
    const { signal } = new AbortController();
    return async (count) => {
      for (let i = 0; i < count; i++) await lock.run(keys[i & 1], section, signal);
    };
  },

  /** All keys, one under the lock of the other. */
  runNested(lock, keys, counter) {
    /** @type {import('../subjects/index.mjs').Section} */
    const innermost = () => void counter[0]++;
    const section = keys.reduceRight((inner, key) => () => lock.run(key, inner), innermost);
    return async (count) => {
      for (let i = 0; i < count; i++) await section();
    };
  },

  run: (lock, keys, counter) => callbacks((key, section) => lock.run(key, section))(keys, counter),
};

/**
 * For subjects with a callback under the lock. An operation takes hundreds or thousands of nanoseconds, so one more
 * call does not matter.
 *
 * @param {(key: any, section: import('../subjects/index.mjs').Section) => Promise<unknown>} run
 * @returns {(keys: any[], counter: Float64Array) => import('../subjects/index.mjs').Batch}
 */
const callbacks = (run) => (keys, counter) => {
  const settled = Promise.resolve();
  const section = () => {
    counter[0]++;
    return settled;
  };
  let at = 0;
  return async (count) => {
    for (let i = 0; i < count; i++) {
      await run(keys[at], section);
      if (++at === keys.length) at = 0;
    }
  };
};
