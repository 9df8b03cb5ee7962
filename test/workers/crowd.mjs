// Tasks of one thread that lock a few keys, give up, and come again. `cells` has a place for each key: 1 while it is
// locked. `counts`: [0] sections, [1] violations, [2] acquisitions that ended otherwise.
import { workerData } from 'node:worker_threads';
import { LockTimeoutError, StripedLock } from 'stripelock';

const { handle, keys, tasks, cells, counts, seed, stop } = workerData;
const lock = StripedLock.from(handle);

let state = seed >>> 0;
/** An integer below `most`: mulberry32. */
function random(most) {
  state = (state + 0x6d2b79f5) >>> 0;
  let mixed = Math.imul(state ^ (state >>> 15), state | 1);
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
  return ((mixed ^ (mixed >>> 14)) >>> 0) % most;
}

async function section(places, guard) {
  for (const place of places) {
    // Whoever died here left it locked.
    if (Atomics.exchange(cells, place, 1) !== 0 && !guard.abandoned) Atomics.add(counts, 1, 1);
  }
  if (random(4) === 0) await undefined;
  if (random(50) === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  for (const place of places) Atomics.store(cells, place, 0);
  Atomics.add(counts, 0, 1);
}

async function once() {
  const first = random(keys.length);
  const places = random(8) === 0 ? [first, (first + 1) % keys.length] : [first];
  const wanted = places.map((place) => keys[place]);
  const how = random(10);
  if (how === 0) {
    const guard = lock.tryAcquire(wanted);
    if (guard) {
      for (const place of places) {
        if (Atomics.exchange(cells, place, 1) !== 0 && !guard.abandoned) Atomics.add(counts, 1, 1);
      }
      for (const place of places) Atomics.store(cells, place, 0);
      guard.release();
    }
    return;
  }
  const options = {};
  if (how < 3) options.timeout = random(5);
  if (how === 3) {
    const abort = new AbortController();
    options.signal = abort.signal;
    setTimeout(() => abort.abort('over'), random(3));
  }
  const guard = await lock.acquire(wanted.length === 1 ? wanted[0] : wanted, options);
  await section(places, guard);
  guard.release();
}

async function task() {
  while (Atomics.load(stop, 0) === 0) {
    try {
      await once();
    } catch (error) {
      if (error !== 'over' && !(error instanceof LockTimeoutError && error.timeout < 5)) throw error;
      Atomics.add(counts, 2, 1);
      await undefined;
    }
  }
}

await Promise.all(Array.from({ length: tasks }, task));
