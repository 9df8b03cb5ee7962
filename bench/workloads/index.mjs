import { combinations } from './combinations.mjs';
import { contendedAsync } from './contended-async.mjs';
import { contendedSync, contendedSyncProduct } from './contended-sync.mjs';
import { first } from './first.mjs';
import { handOver } from './hand-over.mjs';
import { leases } from './leases.mjs';
import { files } from './locked-files.mjs';
import { observation } from './observation.mjs';
import { processes } from './processes.mjs';
import { stores } from './stores.mjs';
import { uncontended, uncontendedMore } from './uncontended.mjs';
import { waiters } from './waiters.mjs';
import { webLocks } from './web-locks.mjs';

/**
 * @typedef {import('../subjects/index.mjs').Ability} Ability
 * @typedef {import('../subjects/index.mjs').Subject} Subject
 *
 * @typedef {object} Common
 * @property {string} name
 * @property {string} group
 * @property {readonly (Ability | readonly Ability[])[]} needs If an item is a list of abilities, any one of them is
 *   enough.
 * @property {number} keys
 * @property {number} stripes
 * @property {string} [server] What it needs outside the process; see `servers`.
 * @property {number} [mostRounds] If fewer than usual are enough.
 * @property {readonly Subject[]} [subjects] Instead of all subjects.
 * @property {readonly Subject[]} floors Measured along with the others. Ratios are to the first.
 *
 * @typedef {object} SingleOnly
 * @property {'single'} runner
 * @property {string} operation See runners/loops.mjs.
 * @property {() => unknown[]} makeKeys
 * @property {boolean} [mixed] Whether the thread has used other locks in every way before; see runners/use-before.mjs.
 * @property {number} [dropped] This many other locks were used once and dropped before.
 * @property {number} [held] This many other keys of the lock are held meanwhile.
 *
 * @typedef {object} ThreadsOnly
 * @property {'threads'} runner
 * @property {number} threads
 * @property {'uniform' | 'zipf'} distribution
 * @property {number} keysAtOnce
 * @property {number} [section] Nanoseconds of work under the lock, for threads that block.
 * @property {number} [sharedPart] The part of requests in shared mode, for threads that block.
 * @property {number} [inFlight] Pending requests in each thread, if they are awaited.
 * @property {boolean} [awaits] Whether the work under the lock awaits.
 *
 * @typedef {object} HandOverOnly
 * @property {'hand-over'} runner
 * @property {'sync' | 'async'} giver Whether it blocks its thread, or waits on its event loop.
 * @property {'sync' | 'async'} taker
 * @property {number} head Milliseconds for which the taker has been waiting.
 *
 * @typedef {object} WaitersOnly
 * @property {'waiters'} runner
 * @property {'memory' | 'cancel' | 'unrelatedAsync' | 'unrelatedSync' | 'lockMemory' | 'heldMemory'} measure
 *
 * @typedef {object} StartsOnly
 * @property {'starts'} runner
 * @property {'process' | 'worker' | 'command'} measure
 *
 * @typedef {object} ClientsOnly
 * @property {'clients'} runner
 * @property {number} clients Keys are taken one after the other.
 * @property {number} limit How many clients may hold a key at once.
 * @property {boolean} again Whether a client asks again as soon as it has released, or only once all others have had
 *   their turn.
 *
 * @typedef {object} ProcessesOnly
 * @property {'processes'} runner
 * @property {'grants' | 'released' | 'killed' | 'waiting'} measure
 * @property {'sync' | 'async'} how Whether they block, or wait in their event loops.
 * @property {number} processes
 * @property {number} [threads] The number of threads of each process; 1 if not given.
 *
 * @typedef {Common & SingleOnly} SingleWorkload
 * @typedef {Common & ThreadsOnly} ThreadsWorkload
 * @typedef {Common & HandOverOnly} HandOverWorkload
 * @typedef {Common & WaitersOnly} WaitersWorkload
 * @typedef {Common & StartsOnly} StartsWorkload
 * @typedef {Common & ClientsOnly} ClientsWorkload
 * @typedef {Common & { runner: 'dead-holder' }} DeadHolderWorkload
 * @typedef {Common & ProcessesOnly} ProcessesWorkload
 * @typedef {WaitersWorkload['measure'] | StartsWorkload['measure'] | ProcessesWorkload['measure']} Measure
 * @typedef {SingleWorkload | ThreadsWorkload | HandOverWorkload | WaitersWorkload | StartsWorkload | ClientsWorkload | DeadHolderWorkload | ProcessesWorkload} Workload
 */

/**
 * A file for each group.
 *
 * @type {readonly Workload[]}
 */
export const workloads = [
  ...uncontended,
  ...combinations,
  ...contendedSync,
  ...contendedAsync,
  ...handOver,
  ...waiters,
  ...first,
  ...leases,
  ...stores,
  ...webLocks,
  ...processes,
  ...files,
  ...observation,
];

const fullOnly = [...uncontendedMore, ...contendedSyncProduct].filter(
  ({ name }) => !workloads.some((usual) => usual.name === name),
);

/**
 * Includes those that a usual run has no time for.
 *
 * @type {readonly Workload[]}
 */
export const fullWorkloads = [...workloads, ...fullOnly];

/**
 * @param {string} name
 * @returns {any} Its type depends on its runner: see {@link Workload}.
 * @throws {Error} If there is none.
 */
export function workloadNamed(name) {
  const found = fullWorkloads.find((workload) => workload.name === name);
  if (found === undefined) throw new Error(`no workload "${name}"`);
  return found;
}
