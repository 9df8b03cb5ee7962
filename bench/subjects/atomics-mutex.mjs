// The mutex that people write by hand: FNV-1a over the key, one word per stripe, Atomics.wait when it is taken.
// No timeout, no owner, no fairness, no recovery.

const STRIPES = 1024;
const FREE = 0;
const HELD = 1;
const CONTENDED = 2;

export function atomicsMutex() {
  // A cache line per word, as stripelock has it.
  const words = new Int32Array(new SharedArrayBuffer(STRIPES * 64));
  return {
    name: 'Atomics mutex',
    sync: (key) => {
      const index = wordOf(key);
      take(words, index);
      release(words, index);
    },
    syncMany: (keys) => {
      const indexes = Int32Array.from(keys, wordOf).sort();
      for (let i = 0; i < indexes.length; i++) {
        if (i === 0 || indexes[i] !== indexes[i - 1]) take(words, indexes[i]);
      }
      for (let i = indexes.length; i-- > 0;) {
        if (i === 0 || indexes[i] !== indexes[i - 1]) release(words, indexes[i]);
      }
    },
  };
}

function wordOf(key) {
  const text = String(key);
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return ((hash >>> 0) % STRIPES) << 4;
}

function take(words, index) {
  if (Atomics.compareExchange(words, index, FREE, HELD) === FREE) return;
  while (Atomics.exchange(words, index, CONTENDED) !== FREE) Atomics.wait(words, index, CONTENDED);
}

function release(words, index) {
  if (Atomics.exchange(words, index, FREE) === CONTENDED) Atomics.notify(words, index, 1);
}
