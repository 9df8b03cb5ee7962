// Requests web locks at random until it is stopped, or is terminated. See test/soak/locks/web-locks.mjs.
import { setImmediate as turn } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { LockManager } from 'stripelock/web-locks';
import { below, randomFrom } from './random.mjs';

const { handle, names, slot, slots, seed } = workerData;
const manager = LockManager.from(handle);
const random = randomFrom(seed);
const stop = new Int32Array(workerData.stop);
/** For each name and slot: 1 for a reader, 2 for a writer. */
const inside = new Int32Array(workerData.inside);
const dead = new Int32Array(workerData.dead);
const EXPECTED = new Set(['AbortError', 'TimeoutError', 'Own']);

const result = { granted: 0, refused: 0, violations: [] };

/** The lock is held, and nothing is stolen under these names. */
async function section(name, lock) {
  const at = name * slots;
  const own = lock.mode === 'shared' ? 1 : 2;
  const check = () => {
    for (let other = 0; other < slots; other++) {
      const theirs = other === slot ? 0 : Atomics.load(inside, at + other);
      if (theirs === 0 || (own === 1 && theirs === 1)) continue;
      // A thread that is about to be terminated may leave its mark.
      if (Atomics.load(dead, other) !== 1) result.violations.push(`slot ${other} is in ${name}, too`);
    }
  };
  // This thread itself has one writer at a time, or readers.
  const before = Atomics.load(inside, at + slot);
  if (before !== 0 && (own === 2 || before === 2)) result.violations.push(`this thread is in ${name} twice`);
  Atomics.store(inside, at + slot, own);
  readers[name]++;
  check();
  if (random() < 0.5) await turn();
  check();
  if (--readers[name] === 0) Atomics.store(inside, at + slot, 0);
  result.granted++;
  if (random() < 0.05) throw Object.assign(new Error('of the callback'), { name: 'Own' });
}

const readers = new Array(names).fill(0);

async function one() {
  const name = below(random, names);
  const mode = random() < 0.5 ? 'shared' : 'exclusive';
  const what = random();
  const controller = new AbortController();
  const options =
    what < 0.1
      ? { mode, ifAvailable: true }
      : what < 0.3
        ? { mode, signal: controller.signal }
        : what < 0.4
          ? { mode, timeout: below(random, 3) }
          : { mode };
  try {
    if (what > 0.95) {
      await manager.request(`stolen ${name}`, { steal: true }, () => turn());
    } else if (what > 0.9) {
      await manager.request(`stolen ${name}`, () => turn());
    } else {
      const request = manager.request(`name ${name}`, options, (lock) => lock && section(name, lock));
      request.catch(() => undefined);
      if (random() < 0.5) await turn();
      controller.abort();
      await request;
    }
  } catch (error) {
    result.refused++;
    if (!EXPECTED.has(error.name)) result.violations.push(String(error.stack));
  }
}

async function chain() {
  while (Atomics.load(stop, 0) === 0 && Atomics.load(dead, slot) !== 2) {
    await one();
    await turn();
  }
}

parentPort.postMessage('runs');
await Promise.all(Array.from({ length: 4 }, chain));
parentPort.postMessage(result);
