import { Worker } from 'node:worker_threads';
import { StripedLock } from 'stripelock';
import { describe, expect, it } from 'vitest';
import { seedFor } from '../support/seed.js';
import { until } from '../support/waiting.js';

const THREADS = 3;
const TASKS = 40;
/** How many threads are ended while they work, and their successors started. */
const ENDED = 6;
const KEYS = ['one', 'two', 'three'];
/** Milliseconds until the last thread has ended: it has little to do, but the machine may be busy. */
const LONGEST = 60_000;

const url = new URL('../workers/crowd.mjs', import.meta.url);
const ints = (length: number): Int32Array => new Int32Array(new SharedArrayBuffer(4 * length));

describe('crowds of tasks in several threads that end at random moments', () => {
  it('never hold one key twice, lose none, and leave nothing behind', { timeout: 2 * LONGEST }, async () => {
    const seed = seedFor('crowds');
    const lock = new StripedLock({ engine: 'native', timeout: LONGEST });
    const [cells, counts, stop] = [ints(KEYS.length), ints(3), ints(1)] as const;
    let started = 0;
    const start = (): Worker => {
      const workerData = {
        handle: lock.handle,
        keys: KEYS,
        tasks: TASKS,
        cells,
        counts,
        seed: seed + started++,
        stop,
      };
      return new Worker(url, { workerData });
    };
    const threads = Array.from({ length: THREADS }, start);
    const progress = async (): Promise<void> => {
      const before = Atomics.load(counts, 0);
      await until(() => Atomics.load(counts, 0) > before + 500, 'the threads work');
    };
    for (let i = 0; i < ENDED; i++) {
      await progress();
      await threads.shift()!.terminate();
      threads.push(start());
    }
    await progress();
    const ended = threads.map((thread) => new Promise((resolve) => thread.once('exit', resolve)));
    Atomics.store(stop, 0, 1);
    expect(await Promise.all(ended)).toEqual(threads.map(() => 0));
    expect(Atomics.load(counts, 1)).toBe(0);
    // Otherwise they did not work at all, or none gave up.
    expect(Atomics.load(counts, 0)).toBeGreaterThan(1000);
    expect(Atomics.load(counts, 2)).toBeGreaterThan(0);
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
    expect(lock.inspect()).toEqual([]);
    lock.acquireSync(KEYS, { timeout: 0 }).release();
  });
});
