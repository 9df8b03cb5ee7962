// Adds one to plain counters, one for each key, while it holds the key, of a lock that has room for few keys. Some keys stay
// held for a while, and some are waited for on the event loop. Ends by itself, or with `exit` as it holds a key. Says in
// `started` that it has begun.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { KeyedLock } from 'stripelock';
import { dawdle } from './dawdle.mjs';
import { below, randomFrom } from './random.mjs';

const { handle, cells, rounds, seed, holds, started } = workerData;
const lock = KeyedLock.from(handle);
const counters = new Int32Array(cells.counters);
const expected = new Int32Array(cells.expected);
const random = randomFrom(seed);
/** On the native engine strings of this length are not remembered. The other remembers none, and takes none that is longer. */
const LENGTH = lock.engine === 'native' ? 300 : 240;

/** Keys of four kinds, so that the cache, and what bypasses it, are both used. */
function keyOf(number) {
  switch (number % 4) {
    case 0:
      return number;
    case 1:
      return `key ${number}`;
    case 2:
      return `key ${number}`.padEnd(LENGTH, '.');
    default:
      return Uint8Array.of(number & 255, number >> 8);
  }
}

function bump(number) {
  const value = counters[number];
  dawdle(10);
  counters[number] = value + 1;
  Atomics.add(expected, number, 1);
}

function attempt(acquire) {
  try {
    return acquire();
  } catch (error) {
    if (error.code === 'ERR_LOCK_CAPACITY') return undefined;
    throw error;
  }
}

let full = 0;
if (started !== undefined) Atomics.store(new Int32Array(started), 0, 1);
const held = [];
let pending = [];
for (let round = 0; round < rounds; round++) {
  const number = below(random, counters.length);
  const key = keyOf(number);
  switch (below(random, 4)) {
    case 0: {
      const guard = attempt(() => lock.tryAcquire(key));
      if (guard === undefined) break;
      bump(number);
      if (held.length < holds) held.push(guard);
      else guard.release();
      break;
    }
    case 1: {
      // It never blocks while it holds a key.
      while (held.length > 0) held.pop().release();
      const guard = attempt(() => lock.acquireSync(key));
      if (guard === undefined) full++;
      else bump(number);
      guard?.release();
      break;
    }
    case 2: {
      const other = below(random, counters.length);
      const guard = attempt(() => lock.tryAcquire([key, keyOf(other), key]));
      if (guard === undefined) break;
      bump(number);
      if (other !== number) bump(other);
      guard.release();
      break;
    }
    default:
      pending.push(
        lock.acquire(key).then(
          (guard) => {
            bump(number);
            guard.release();
          },
          (error) => {
            if (error.code !== 'ERR_LOCK_CAPACITY') throw error;
            full++;
          },
        ),
      );
      if (pending.length === 8) {
        while (held.length > 0) held.pop().release();
        await Promise.all(pending);
        pending = [];
      }
      await nextTurn();
  }
}
while (held.length > 0) held.pop().release();
await Promise.all(pending);
parentPort.postMessage(full);
