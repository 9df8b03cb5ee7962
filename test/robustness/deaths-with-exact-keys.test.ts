import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { KeyedLock, type KeyedLockHandle, type StripedLock } from 'stripelock';
import { seedFor } from '../support/seed.js';
import { startThread } from '../support/threads.js';
import { Victim, type VictimPlan } from '../support/victim.js';
import { until } from '../support/waiting.js';
import { below, randomFrom } from '../workers/random.mjs';

const KEYS = 400;
const THREADS = 3;
const DEATHS = 24;

/** A thread dies that has done so with a lock. */
async function die(handle: KeyedLockHandle, plan: VictimPlan): Promise<void> {
  const victim = await Victim.start({ handle } as unknown as StripedLock, plan);
  await victim.end('terminate');
}

it.each([1, 2, 3, 4, 100])('a death is told also in a lock of %i keys', async (capacity) => {
  const lock = new KeyedLock({ engine: 'native', capacity });
  await die(lock.handle, { holds: [{ keys: 'key' }] });
  expect(lock.size).toBe(1);
  const guard = lock.acquireSync('key');
  expect(guard.abandoned).toBe(true);
  guard.release();
  expect(lock.acquireSync('key').abandoned).toBe(false);
});

it('a death is told if nobody else had the lock open, of exclusive holds and of no others', async () => {
  const maker = startThread('make-lock.mjs', { keyed: true, options: { engine: 'native', capacity: 50 } });
  const [{ handle }] = (await once(maker, 'message')) as [{ handle: KeyedLockHandle }];
  await once(maker, 'exit');
  const long = 'long '.repeat(50);
  const keys = ['key', long, 7];
  for (let round = 0; round < 3; round++) {
    await die(handle, { holds: [{ keys }, { keys: 'read', mode: 'shared' }] });
    // It also ends without having seen to those.
    await die(handle, { holds: [{ keys: 'other' }] });
  }
  const lock = KeyedLock.from(handle);
  expect(lock.size).toBe(4);
  expect(lock.inspect()).toEqual([]);
  const told = ['read', ...keys, 'other', 'third', ...keys].map((key) =>
    lock.withLockSync(key, ({ abandoned }) => abandoned),
  );
  expect(told).toEqual([false, true, true, true, true, false, false, false, false]);
  expect(lock.size).toBe(0);
  expect(lock.stats().abandoned).toBe(3 * 4);
});

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
