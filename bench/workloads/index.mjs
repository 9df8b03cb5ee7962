import { contendedAsync } from './contended-async.mjs';
import { contendedSync, contendedSyncProduct } from './contended-sync.mjs';
import { handOff } from './hand-off.mjs';
import { leases } from './leases.mjs';
import { stores } from './stores.mjs';
import { uncontended, uncontendedMore } from './uncontended.mjs';
import { waiters } from './waiters.mjs';

/**
 * What a runner needs to know of a workload is its own business. All have
 *
 * @typedef {object} Workload
 * @property {string} name
 * @property {string} group
 * @property {string} runner See runners/index.mjs.
 * @property {readonly (string | readonly string[])[]} needs Abilities, see subjects/index.mjs.
 * @property {number} keys
 * @property {'redis' | 'sqlite'} [server] What it needs outside the process.
 * @property {number} [mostRounds] Where fewer than usual will do.
 * @property {readonly object[]} [subjects] Instead of all that there are.
 * @property {readonly object[]} floors Subjects measured along with the others. Ratios are to the first.
 */

/**
 * A file for each group.
 *
 * @type {readonly Workload[]}
 */
export const workloads = [
  ...uncontended,
  ...contendedSync,
  ...contendedAsync,
  ...handOff,
  ...waiters,
  ...leases,
  ...stores,
];

const fullOnly = [...uncontendedMore, ...contendedSyncProduct].filter(
  ({ name }) => !workloads.some((usual) => usual.name === name),
);

/**
 * With those that a usual run has no time for.
 *
 * @type {readonly Workload[]}
 */
export const fullWorkloads = [...workloads, ...fullOnly];

export function workloadNamed(name) {
  return fullWorkloads.find((workload) => workload.name === name);
}
