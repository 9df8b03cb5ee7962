import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { KeyedLock } from 'stripelock';
import { below } from '../../workers/random.mjs';
import { sharedInts } from './threads.mjs';

const KEYS = 400;
/** The threads remember 64 keys together then, so that stripes pass from key to key all the time. */
const CAPACITY = 128;
const THREADS = 3;

/**
 * Exact keys, of which there are more than stripes, in threads that are terminated at any moment.
 *
 * @type {import('./scenes.mjs').Scene}
 */
export async function keys({ goesOn, random, counts }) {
  const lock = new KeyedLock({ engine: 'native', name: 'keys', capacity: CAPACITY, timeout: Infinity });
  const cells = { counters: sharedInts(KEYS), expected: sharedInts(KEYS) };
  const counters = new Int32Array(cells.counters);
  const expected = new Int32Array(cells.expected);
  Object.assign(counts, { sections: 0, terminated: 0 });
  const sections = () => expected.reduce((sum, each) => sum + each, 0);
  const generation = async () => {
    while (goesOn()) {
      const before = sections();
      const started = sharedInts(1);
      const seed = below(random, 2 ** 31);
      const worker = new Worker(new URL('../../workers/exact-keys.mjs', import.meta.url), {
        workerData: { handle: lock.handle, cells, rounds: Infinity, seed, holds: 10, started },
      });
      await once(worker, 'online');
      // Node 20 aborts the process if a thread is terminated just when it begins to evaluate a module that awaits.
      while (Atomics.load(new Int32Array(started), 0) === 0) await delay(1);
      // Some thread works, this one or another.
      while (goesOn() && sections() === before) await delay(1);
      await delay(below(random, 100));
      await worker.terminate();
      counts.terminated++;
      counts.sections = sections();
    }
  };
  await Promise.all(Array.from({ length: THREADS }, generation));

  const violations = [];
  // A thread may be ended between the two counts of each of its two keys, but loses none that another one counted.
  let more = 0;
  for (let key = 0; key < KEYS; key++) {
    const difference = counters[key] - expected[key];
    if (difference < 0) violations.push(`key ${key} has lost ${-difference} updates`);
    more += difference;
  }
  if (more > 2 * counts.terminated) violations.push(`${more} updates too many`);
  const { held, waiting, deadlocks } = lock.stats();
  if (held + waiting + deadlocks > 0) violations.push(`left: ${JSON.stringify(lock.stats())}`);
  try {
    // Abandoned keys make room.
    const all = Array.from({ length: CAPACITY }, (_, i) => `at the end ${i}`);
    lock.acquireSync(all, { timeout: 0 }).release();
  } catch (error) {
    violations.push(`not all stripes are left: ${error}`);
  }
  return lock.size === 0 ? violations : [...violations, `${lock.size} keys are in use`];
}
