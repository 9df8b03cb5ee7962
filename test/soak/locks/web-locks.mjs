import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { LockManager } from 'stripelock/web-locks';
import { below } from '../../workers/random.mjs';
import { sharedInts } from './threads.mjs';

const NAMES = 4;
const AT_ONCE = 3;
/** Slots are used again by later threads, long after the thread that had one has ended. */
const SLOTS = 64;
/** Milliseconds until a request of this thread must be granted. Generous, as the machine is busy with all scenes. */
const PATIENCE = 20_000;
/** Milliseconds that a thread runs at most. */
const LIFE = 200;

/**
 * Web locks of threads that are terminated at random moments, or end by themselves: requests of all kinds, and steals of
 * names on which nothing depends.
 *
 * @type {import('./scenes.mjs').Scene}
 */
export async function webLocks({ goesOn, random, stop, counts }) {
  const manager = new LockManager({ name: 'soak' });
  const inside = sharedInts(NAMES * SLOTS);
  const dead = sharedInts(SLOTS);
  const deaths = new Int32Array(dead);
  /** @type {string[]} */
  const violations = [];
  Object.assign(counts, { threads: 0, terminated: 0, granted: 0, refused: 0 });

  /** @param {number} line Of the threads that run at once. */
  const run = async (line) => {
    while (goesOn()) {
      const slot = line + AT_ONCE * below(random, Math.floor(SLOTS / AT_ONCE));
      for (let name = 0; name < NAMES; name++) Atomics.store(new Int32Array(inside), name * SLOTS + slot, 0);
      Atomics.store(deaths, slot, 0);
      const shared = { handle: manager.handle, names: NAMES, slots: SLOTS, stop, inside, dead };
      const worker = new Worker(new URL('../../workers/web-locks-soak.mjs', import.meta.url), {
        workerData: { ...shared, slot, seed: below(random, 2 ** 31) },
      });
      /** @type {{ granted: number, refused: number, violations: string[] } | undefined} */
      let result;
      worker.on('message', (message) => {
        if (message !== 'runs') result = message;
      });
      worker.on('error', (error) => violations.push(String(error.stack)));
      const exit = once(worker, 'exit');
      await once(worker, 'message');
      counts.threads++;
      await delay(below(random, LIFE));
      const terminated = random() < 0.7;
      // Others ignore its marks from now on, or it ends by itself.
      Atomics.store(deaths, slot, terminated ? 1 : 2);
      if (terminated) await worker.terminate();
      await exit;
      if (terminated) counts.terminated++;
      else if (result === undefined) violations.push('a thread has ended without a result');
      counts.granted += result?.granted ?? 0;
      counts.refused += result?.refused ?? 0;
      violations.push(...(result?.violations ?? []));
      // Whatever the thread left is free, or goes to others who end.
      const name = `name ${below(random, NAMES)}`;
      await manager
        .request(name, { timeout: PATIENCE }, () => undefined)
        .catch((error) => {
          violations.push(`${name} was not granted: ${error.name}`);
        });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, (_, line) => run(line)));
  const { held = [], pending = [] } = await manager.query();
  if (held.length + pending.length > 0) {
    violations.push(`left behind: ${JSON.stringify({ held, pending })}`);
  }
  return violations;
}
