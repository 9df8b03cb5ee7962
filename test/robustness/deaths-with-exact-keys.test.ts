import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { KeyedLock } from 'stripelock';
import { seedFor } from '../support/seed.js';
import { startThread } from '../support/threads.js';
import { until } from '../support/waiting.js';
import { below, randomFrom } from '../workers/random.mjs';

const KEYS = 400;
const THREADS = 3;
const DEATHS = 24;

it('threads that are terminated while stripes pass from key to key lose no update and no stripe', async () => {
  const seed = seedFor('deaths with exact keys');
  const random = randomFrom(seed);
  // The threads remember 64 keys together.
  const lock = new KeyedLock({ engine: 'native', capacity: 128, timeout: 60_000 });
  const cells = { counters: new SharedArrayBuffer(4 * KEYS), expected: new SharedArrayBuffer(4 * KEYS) };
  const counters = new Int32Array(cells.counters);
  const expected = new Int32Array(cells.expected);
  const total = (all: Int32Array): number => all.reduce((sum, each) => sum + each, 0);
  let deaths = 0;
  const generation = async (): Promise<void> => {
    while (deaths < DEATHS) {
      const before = total(expected);
      const data = { handle: lock.handle, cells, rounds: Infinity, seed: seed + deaths++, holds: 10 };
      const worker = startThread('exact-keys.mjs', data);
      await until(() => total(expected) > before, 'some thread works');
      await delay(below(random, 30));
      await worker.terminate();
    }
  };
  await Promise.all(Array.from({ length: THREADS }, generation));

  // A thread may have died between the two counts, once each, but has not lost what another one counted.
  for (let key = 0; key < KEYS; key++) expect(counters[key]).toBeGreaterThanOrEqual(expected[key]!);
  expect(total(counters) - total(expected)).toBeLessThanOrEqual(2 * DEATHS);
  expect(total(expected)).toBeGreaterThan(DEATHS);
  expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
  // Abandoned keys, of which a quarter of the capacity is kept.
  expect(lock.size).toBeLessThanOrEqual(32);
  const all = Array.from({ length: 128 }, (_, i) => `at the end ${i}`);
  const guard = lock.acquireSync(all, { timeout: 0 });
  expect(guard).toMatchObject({ held: true });
  guard.release();
  expect(lock.size).toBe(0);
}, 60_000);
