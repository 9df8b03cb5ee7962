// What it costs to look: spans, a profile of contention, traces and the state of a key.

import { observedSubjects, stateOf } from '../subjects/observed.mjs';
import { contendedAsync } from './contended-async.mjs';
import { contendedSync } from './contended-sync.mjs';
import { uncontended } from './uncontended.mjs';

/**
 * A workload of another group, for these subjects alone.
 *
 * @param {readonly import('./index.mjs').Workload[]} of
 * @param {string} name
 * @param {readonly import('./index.mjs').Subject[]} [besides] What is no lock.
 * @returns {any}
 */
function looked(of, name, besides = []) {
  const found = of.find((workload) => workload.name === name);
  if (found === undefined) throw new Error(`no workload "${name}"`);
  const { floors } = found;
  return {
    ...found,
    name: `looked at: ${name}`,
    group: 'observation',
    subjects: observedSubjects,
    floors: [...floors.slice(0, 1), ...besides],
  };
}

export const observation = [
  looked(uncontended, 'sync, hot string key'),
  looked(uncontended, 'async, hot string key'),
  looked(uncontended, 'try, hot string key', [stateOf]),
  looked(contendedSync, 'sync, 2 threads, 1 stripe, 5 µs section, uniform'),
  // As the ledger demo has it.
  looked(contendedSync, 'sync, 8 threads, 1024 stripes, 5 µs section, zipf, 4 keys'),
  looked(contendedAsync, 'async, 4 threads, 64 keys, 100 in flight'),
];
