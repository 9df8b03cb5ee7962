import { keyedLock, stripelock } from './stripelock.mjs';
import { atomicsMutex } from './atomics-mutex.mjs';
import { asyncMutex } from './async-mutex.mjs';
import { asyncLock } from './async-lock.mjs';
import { awaitSemaphore } from './await-semaphore.mjs';
import { lockedFileFloors, lockedFiles } from './locked-files.mjs';
import { processLocks } from './process-locks.mjs';
import { promiseQueue } from './promise-queue.mjs';
import { nodeLocks } from './node-locks.mjs';
import { observedSubjects, stateOf } from './observed.mjs';
import { stripelockWebLocks } from './stripelock-web-locks.mjs';
import { webLocksPackage } from './web-locks.mjs';
import { leaseSubjects } from './leases.mjs';
import { storeSubjects } from './stores.mjs';
import { floors } from './floors.mjs';

/**
 * What a subject can do, and the methods of its {@link Lock} for that:
 *
 *   sync     acquireSync(key), which blocks the thread, and release(held)
 *   try      tryAcquire(key): held, or undefined at once
 *   acquire  acquire(key): a promise of held
 *   run      run(key, section): a promise that settles when `section`, which may return a promise, has run under the lock
 *   shared   each of these that it has, with `Shared` in the name: acquireSharedSync, tryAcquireShared, acquireShared,
 *            runShared where there is no acquireShared
 *   many     likewise for several keys at once: acquireManySync, tryAcquireMany, acquireMany, runMany
 *   abort    run takes an AbortSignal as its third argument
 *   threads  the same lock in several threads
 *
 * @typedef {'sync' | 'try' | 'acquire' | 'run' | 'shared' | 'many' | 'abort' | 'threads'} Ability
 * @typedef {any} Key A string, or in some workloads an integer.
 * @typedef {any} Held What a subject returns when it grants a key, and takes back to release it.
 * @typedef {() => any} Section What runs under the lock; may give a promise.
 * @typedef {(count: number) => unknown} Batch Does an operation `count` times. May return a promise.
 *
 * @typedef {object} Lock
 * @property {(key: Key) => Held} acquireSync
 * @property {(key: Key) => Held} acquireSharedSync
 * @property {(keys: Key[]) => Held} acquireManySync
 * @property {(key: Key) => Held} tryAcquire
 * @property {(key: Key) => Held} tryAcquireShared
 * @property {(keys: Key[]) => Held} tryAcquireMany
 * @property {(key: Key) => Promise<Held>} acquire
 * @property {(key: Key) => Promise<Held>} acquireShared
 * @property {(keys: Key[]) => Promise<Held>} acquireMany
 * @property {(held: Held) => unknown} release
 * @property {(key: Key, section: Section, signal?: AbortSignal) => Promise<unknown>} run
 * @property {(key: Key, section: Section) => Promise<unknown>} runShared
 * @property {(keys: Key[], section: Section) => Promise<unknown>} runMany
 * @property {(counter: Float64Array) => Batch} [loop] For a subject that has its own operation.
 * @property {() => unknown} [close]
 *
 * @typedef {object} Limits What a subject may look at in a workload.
 * @property {string} group
 * @property {readonly (Ability | readonly Ability[])[]} needs
 * @property {number} keys
 * @property {number} [threads]
 * @property {number} [inFlight]
 *
 * @typedef {object} Subject
 * @property {string} name
 * @property {readonly string[]} packages Their versions are recorded with its figures.
 * @property {readonly Ability[]} can
 * @property {(workload: Limits) => string | undefined} [limit] Why it cannot do a workload whose abilities it has.
 * @property {boolean} [unsound] Known to let two threads in at once now and then: a miscount is shown with its figures,
 *   and does not fail the run.
 * @property {boolean} [excludes] False for a subject that is not a lock and whose abilities do not say so.
 * @property {(settings: { stripes: number }) => any} create What the threads share; structured-cloneable.
 * @property {(shared: any) => Partial<Lock> | Promise<Partial<Lock>>} open Called in each thread. Only subjects that
 *   belong to one workload return a promise.
 * @property {(shared: any) => void} [destroy] Ends what `create` made, if that is necessary.
 */

/** @type {readonly Subject[]} */
export const subjects = [
  stripelock('native'),
  keyedLock,
  stripelock('javascript'),
  atomicsMutex,
  promiseQueue,
  asyncMutex,
  awaitSemaphore,
  asyncLock,
  nodeLocks,
  webLocksPackage,
];

/** @type {readonly Subject[]} */
const everything = [
  ...Object.values(floors),
  ...subjects,
  ...Object.values(leaseSubjects).flat(),
  ...Object.values(storeSubjects),
  stripelockWebLocks,
  ...processLocks,
  ...lockedFiles,
  ...lockedFileFloors,
  ...observedSubjects,
  stateOf,
];

/**
 * @param {string} name
 * @returns {Subject}
 * @throws {Error} Where there is none.
 */
export function subjectNamed(name) {
  const found = everything.find((subject) => subject.name === name);
  if (found === undefined) throw new Error(`no subject "${name}"`);
  return found;
}

/**
 * A subject's lock in this thread, for a workload that it can do, so the methods that are called exist.
 *
 * @param {Subject} subject
 * @param {unknown} shared
 */
export function openLock(subject, shared) {
  return /** @type {Lock} */ (subject.open(shared));
}

/**
 * Why the subject cannot do the workload, or undefined if it can.
 *
 * @param {Subject} subject
 * @param {Limits} workload If `needs` contains a list, any one of its abilities is enough.
 */
export function whyNot(subject, workload) {
  for (const need of workload.needs) {
    const enough = [need].flat();
    if (!enough.some((ability) => subject.can.includes(ability))) return `has no ${enough.join(' or ')}`;
  }
  return subject.limit?.(workload);
}
