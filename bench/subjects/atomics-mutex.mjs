// The mutex that people write by hand: FNV-1a over the key, one word per stripe, `Atomics.wait` if it is taken (U.
// Drepper, "Futexes Are Tricky", the second mutex). No timeout, no owner, no fairness, no recovery.

const FREE = 0;
const HELD = 1;
const CONTENDED = 2;

/** Words to a cache line of 64 bytes: a stripe each, as stripelock has it. */
const SPACING = 16;

/** @type {import('./index.mjs').Subject} */
export const atomicsMutex = {
  name: 'Atomics mutex',
  packages: [],
  can: ['sync', 'try', 'many', 'threads'],
  create: ({ stripes }) => new Int32Array(new SharedArrayBuffer(stripes * SPACING * 4)),
  open: (words) => ({
    acquireSync: (key) => {
      const index = wordOf(words, key);
      take(words, index);
      return index;
    },
    tryAcquire: (key) => {
      const index = wordOf(words, key);
      return Atomics.compareExchange(words, index, FREE, HELD) === FREE ? index : undefined;
    },
    acquireManySync: (keys) => {
      const indexes = indexesOf(words, keys);
      for (const index of indexes) take(words, index);
      return indexes;
    },
    tryAcquireMany: (keys) => {
      const indexes = indexesOf(words, keys);
      for (let i = 0; i < indexes.length; i++) {
        if (Atomics.compareExchange(words, indexes[i], FREE, HELD) === FREE) continue;
        while (i-- > 0) giveBack(words, indexes[i]);
        return undefined;
      }
      return indexes;
    },
    release: (held) => {
      if (typeof held === 'number') giveBack(words, held);
      else for (let i = held.length; i-- > 0;) giveBack(words, held[i]);
    },
  }),
};

/**
 * The index of a key's word.
 *
 * @param {Int32Array} words
 * @param {string | number} key
 */
function wordOf(words, key) {
  const stripes = words.length / SPACING;
  const hash = typeof key === 'number' ? Math.imul(key, 0x9e37_79b1) : fnv1a(key);
  return ((hash >>> 0) % stripes) * SPACING;
}

/**
 * Hashes the low bytes of the text's UTF-16 units: all keys here have no others.
 *
 * @param {string} text
 */
function fnv1a(text) {
  let hash = 0x811c_9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x0100_0193);
  return hash;
}

/**
 * Ascending, so that no two callers can each hold what the other wants. Each index once.
 *
 * @param {Int32Array} words
 * @param {readonly (string | number)[]} keys
 */
function indexesOf(words, keys) {
  const indexes = new Int32Array(keys.length);
  for (let i = 0; i < keys.length; i++) indexes[i] = wordOf(words, keys[i]);
  indexes.sort();
  let used = 0;
  for (let i = 0; i < indexes.length; i++) {
    if (i === 0 || indexes[i] !== indexes[i - 1]) indexes[used++] = indexes[i];
  }
  return indexes.subarray(0, used);
}

/**
 * @param {Int32Array} words
 * @param {number} index
 */
function take(words, index) {
  if (Atomics.compareExchange(words, index, FREE, HELD) === FREE) return;
  while (Atomics.exchange(words, index, CONTENDED) !== FREE) Atomics.wait(words, index, CONTENDED);
}

/**
 * @param {Int32Array} words
 * @param {number} index
 */
function giveBack(words, index) {
  if (Atomics.exchange(words, index, FREE) === CONTENDED) Atomics.notify(words, index, 1);
}
