// Pending requests on event loops: in one thread, where any asynchronous lock works, and in four.

import { floors } from '../subjects/floors.mjs';

/**
 * @param {number} threads
 * @param {number} keys
 * @param {number} inFlight In each thread.
 * @param {{ floors?: readonly import('./index.mjs').Subject[], awaits?: boolean }} [options]
 * @returns {import('./index.mjs').ThreadsWorkload}
 */
function workload(threads, keys, inFlight, { floors: chosen = [], awaits = true } = {}) {
  const keysName = keys === 1 ? '1 key' : `${keys} keys`;
  const threadsName = threads === 1 ? '1 thread' : `${threads} threads`;
  return {
    name: `async, ${threadsName}, ${keysName}, ${inFlight.toLocaleString('en')} in flight${awaits ? '' : ', no await under the lock'}`,
    group: 'contended async',
    runner: 'threads',
    needs: threads > 1 ? ['run', 'threads'] : ['run'],
    floors: chosen,
    stripes: 1024,
    distribution: 'uniform',
    keysAtOnce: 1,
    threads,
    keys,
    inFlight,
    awaits,
  };
}

/** 1000 as well: more than async-mutex and async-lock usually see, but no flood. */
export const contendedAsync = [
  workload(1, 1, 1),
  workload(1, 1, 2),
  workload(1, 1, 10),
  workload(1, 1, 100),
  workload(1, 1, 1000, { floors: [floors.noLock] }),
  workload(1, 1, 10_000),
  workload(1, 64, 1),
  workload(1, 64, 2),
  workload(1, 64, 10),
  workload(1, 64, 100),
  workload(1, 64, 1000),
  workload(1, 64, 10_000),
  workload(4, 1, 1),
  workload(4, 1, 100),
  workload(4, 1, 10_000),
  workload(4, 64, 1),
  workload(4, 64, 100),
  // On some versions of Node, its own locks nearly stop if several threads await under them.
  workload(4, 64, 1, { awaits: false }),
  workload(4, 64, 100, { awaits: false }),
  workload(4, 64, 10_000),
];
