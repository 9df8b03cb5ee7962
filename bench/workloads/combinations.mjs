// A single thread that takes keys out of many: one, or several that rarely come together again.

import { floors } from '../subjects/floors.mjs';
import { atomicsMutex } from '../subjects/atomics-mutex.mjs';
import { keyedLock, stripelock } from '../subjects/stripelock.mjs';
import { keyNamed } from '../support/keys.mjs';

const STRIPES = 1024;
const SETS = 128;
const EIGHT = 8;

const keysNamed = (/** @type {number} */ count) => Array.from({ length: count }, (_, i) => keyNamed(i));

/**
 * @param {string} name
 * @param {'syncSingles' | 'syncPairs' | 'syncEights' | 'syncMany'} operation See runners/loops.mjs.
 * @param {number} keys
 * @param {() => unknown[]} [makeKeys]
 * @returns {import('./index.mjs').SingleWorkload}
 */
const workload = (name, operation, keys, makeKeys = () => keysNamed(keys)) => ({
  name: `sync, ${name}`,
  group: 'combinations',
  runner: 'single',
  operation,
  needs: operation === 'syncSingles' ? ['sync'] : ['sync', 'many'],
  makeKeys,
  stripes: STRIPES,
  keys,
  floors: [floors.compareExchange],
  subjects: [stripelock('native'), keyedLock, stripelock('javascript'), atomicsMutex],
});

/** Sets of eight keys that come again and again, in turn. */
const recurring = () => {
  const keys = keysNamed(SETS * EIGHT);
  return Array.from({ length: SETS }, (_, i) => keys.slice(EIGHT * i, EIGHT * (i + 1)));
};

export const combinations = [
  workload('1 of 1000 keys', 'syncSingles', 1000),
  { ...workload('1 of 1000 keys, in a program that uses all of the lock', 'syncSingles', 1000), mixed: true },
  workload('2 of 1000 keys, new sets', 'syncPairs', 1000),
  workload('8 of 1000 keys, new sets', 'syncEights', 1000),
  workload('8 keys, 128 sets in turn', 'syncMany', SETS * EIGHT, recurring),
  workload('1 of 20,000 keys', 'syncSingles', 20_000),
  workload('2 of 20,000 keys, new sets', 'syncPairs', 20_000),
  workload('8 of 20,000 keys, new sets', 'syncEights', 20_000),
];
