import { stripelock } from './stripelock.mjs';
import { atomicsMutex } from './atomics-mutex.mjs';
import { asyncMutex } from './async-mutex.mjs';
import { asyncLock } from './async-lock.mjs';
import { nodeLocks } from './node-locks.mjs';
import { webLocksPackage } from './web-locks.mjs';
import { leaseSubjects } from './leases.mjs';
import { storeSubjects } from './stores.mjs';
import { floors } from './floors.mjs';

/**
 * What a subject can do, and the methods of its {@link Lock} that say so:
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
 * @typedef {Record<string, Function>} Lock
 *
 * @typedef {object} Subject
 * @property {string} name
 * @property {readonly string[]} packages Whose versions belong to its figures.
 * @property {readonly Ability[]} can
 * @property {(workload: object) => string | undefined} [limit] Why it cannot do a workload whose abilities it has.
 * @property {boolean} [unsound] Known to let two in at once now and then: a miscount is shown with its figures, and
 *   does not fail the run.
 * @property {(settings: { stripes: number }) => unknown} create What the threads share; structured-cloneable.
 * @property {(shared: unknown) => Lock} open In each thread. Subjects of a workload's own may give a promise of it.
 */

/** @type {readonly Subject[]} */
export const subjects = [
  stripelock('native'),
  stripelock('javascript'),
  atomicsMutex,
  asyncMutex,
  asyncLock,
  nodeLocks,
  webLocksPackage,
];

const everything = [
  ...Object.values(floors),
  ...subjects,
  ...Object.values(leaseSubjects).flat(),
  ...Object.values(storeSubjects),
];

/** @returns {Subject} */
export function subjectNamed(name) {
  return everything.find((subject) => subject.name === name);
}

/**
 * Why the subject cannot do the workload, or undefined where it can.
 *
 * @param {Subject} subject
 * @param {{ needs: readonly (string | readonly string[])[] }} workload Of a list in `needs`, any one is enough.
 */
export function whyNot(subject, workload) {
  for (const need of workload.needs) {
    const enough = [need].flat();
    if (!enough.some((ability) => subject.can.includes(ability))) return `has no ${enough.join(' or ')}`;
  }
  return subject.limit?.(workload);
}
