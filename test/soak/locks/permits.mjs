import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { KeyedLock } from 'stripelock';
import { below } from '../../workers/random.mjs';
import { runThread, sharedInts } from './threads.mjs';

const LIMIT = 3;
const KEYS = 3;
const MANNERS = ['sync', 'async', 'keeping', 'mixed'];

/**
 * Permits of threads that take them in every way, and of threads that are terminated while they hold and wait for some.
 *
 * @type {import('./scenes.mjs').Scene}
 */
export async function permits({ goesOn, random, counts }) {
  const lock = new KeyedLock({ engine: 'native', name: 'permits', limit: LIMIT, timeout: Infinity });
  const violations = [];
  Object.assign(counts, { threads: 0, terminated: 0 });
  while (goesOn()) {
    const cells = sharedInts(KEYS);
    const common = { handle: lock.handle, cells, gate: sharedInts(1), threads: 3, keys: KEYS, mostKeys: 2 };
    const working = [1, 2, 3].map(() => {
      const manner = MANNERS[below(random, MANNERS.length)];
      return runThread('permits.mjs', { ...common, manner, rounds: 200, seed: below(random, 2 ** 31) });
    });
    // One permit of a key at most: the others can continue meanwhile.
    const victim = new Worker(new URL('../../workers/victim.mjs', import.meta.url), {
      workerData: {
        handle: lock.handle,
        holds: [{ keys: 0, how: random() < 0.5 ? 'sync' : 'async' }],
        pending: [{ keys: [1, 2] }],
        ...(random() < 0.5 ? { parked: { keys: [1, 2] } } : {}),
      },
    });
    await once(victim, 'message');
    await delay(below(random, 20));
    await victim.terminate();
    counts.terminated++;
    const tooMany = await Promise.all(working);
    counts.threads += working.length;
    if (tooMany.some((count) => count > 0)) violations.push(`more than ${LIMIT} inside`);
    for (let key = 0; key < KEYS; key++) {
      const guards = Array.from({ length: LIMIT }, () => lock.tryAcquire(key));
      if (guards.includes(undefined)) violations.push(`a permit of key ${key} is lost`);
      if (lock.tryAcquire(key)) violations.push(`key ${key} has one permit more`);
      for (const guard of guards) guard?.release();
    }
  }
  const { held, waiting, deadlocks } = lock.stats();
  if (held + waiting + deadlocks > 0) violations.push(`left: ${JSON.stringify(lock.stats())}`);
  return violations;
}
