// Threads that block each other: each acquires, works and releases, again and again, with nothing in between.

import { floors } from '../subjects/floors.mjs';

/** What is locked: keys drawn uniformly or by Zipf's law. */
const KEYS = 1024;

const THREADS = [2, 4, 8, 16];
const STRIPES = [1, 16, 1024];
/** Nanoseconds of work under the lock. */
const SECTIONS = [0, 100, 5000, 100_000];
/**
 * @typedef {object} Choice
 * @property {'uniform' | 'zipf'} distribution
 * @property {number} [keysAtOnce]
 * @property {number} [sharedPart]
 */

/** @type {Choice[]} */
const CHOICES = [
  { distribution: 'uniform' },
  { distribution: 'zipf' },
  { distribution: 'uniform', keysAtOnce: 4 },
  { distribution: 'zipf', keysAtOnce: 4 },
  { distribution: 'uniform', sharedPart: 0.95 },
  { distribution: 'zipf', sharedPart: 0.95 },
];

/**
 * @param {number} threads
 * @param {number} stripes
 * @param {number} section Nanoseconds.
 * @param {Choice} choice
 * @param {readonly import('./index.mjs').Subject[]} [chosenFloors]
 * @returns {import('./index.mjs').ThreadsWorkload}
 */
function workload(
  threads,
  stripes,
  section,
  { distribution, keysAtOnce = 1, sharedPart = 0 },
  chosenFloors = [],
) {
  const parts = [
    `${threads} threads`,
    stripes === 1 ? '1 stripe' : `${stripes} stripes`,
    `${sectionName(section)} section`,
    distribution,
    ...(keysAtOnce > 1 ? [`${keysAtOnce} keys`] : []),
    ...(sharedPart > 0 ? [`${sharedPart * 100} % shared`] : []),
  ];
  /** @type {import('./index.mjs').Ability[]} */
  const needs = ['sync', 'threads'];
  if (keysAtOnce > 1) needs.push('many');
  if (sharedPart > 0) needs.push('shared');
  return {
    name: `sync, ${parts.join(', ')}`,
    group: 'contended sync',
    runner: 'threads',
    needs,
    floors: chosenFloors,
    keys: KEYS,
    threads,
    stripes,
    section,
    distribution,
    keysAtOnce,
    sharedPart,
  };
}

/** @param {number} nanoseconds */
function sectionName(nanoseconds) {
  if (nanoseconds === 0) return 'empty';
  return nanoseconds < 1000 ? `${nanoseconds} ns` : `${nanoseconds / 1000} µs`;
}

const [uniform, zipf, uniformFour, zipfFour, uniformShared, zipfShared] = CHOICES;

/** One path through all combinations: each value of each dimension, and what programs do most. */
export const contendedSync = [
  workload(2, 1, 0, uniform),
  workload(2, 1, 100, uniform, [floors.noLock]),
  workload(2, 1, 5000, uniform),
  workload(2, 1, 100_000, uniform),
  workload(4, 1, 100, uniform),
  workload(4, 16, 100, uniformFour),
  workload(4, 16, 5000, uniformShared),
  workload(4, 1024, 100, uniform),
  workload(4, 1024, 100, zipf),
  workload(8, 16, 5000, uniform),
  workload(8, 1024, 5000, zipfFour),
  workload(8, 1024, 5000, zipfShared),
  workload(16, 1, 5000, uniform),
  workload(16, 16, 100_000, zipf),
];

export const contendedSyncProduct = THREADS.flatMap((threads) =>
  STRIPES.flatMap((stripes) =>
    SECTIONS.flatMap((section) => CHOICES.map((choice) => workload(threads, stripes, section, choice))),
  ),
);
