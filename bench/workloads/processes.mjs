// Locks between the processes of a machine.

import { keyNamed } from '../support/keys.mjs';
import {
  bareFcntl,
  fsNativeExtensions,
  processLock,
  properLockfile,
  spreadProcessLock,
} from '../subjects/process-locks.mjs';

const KEY = 'account:1234567';
const everybody = [processLock, fsNativeExtensions, properLockfile];
const common = { group: 'processes', stripes: 1, keys: 1, floors: [] };

/**
 * @param {string} name
 * @param {'sync' | 'try' | 'async'} operation
 * @returns {import('./index.mjs').SingleWorkload}
 */
const free = (name, operation) => ({
  ...common,
  name: `processes, a free key, ${name}`,
  runner: 'single',
  operation,
  subjects: everybody,
  needs: [operation === 'async' ? ['acquire', 'run'] : operation],
  makeKeys: () => [KEY],
  floors: [bareFcntl],
});

/**
 * The kernel searches its list of the file's locks up to the key's position, so the cost of one key depends on its hash. Many
 * keys show the mean.
 */
const MANY = 64;

/**
 * Keys of a file whose other keys are held.
 *
 * @param {number} held
 * @returns {import('./index.mjs').SingleWorkload}
 */
const besideHeld = (held) => ({
  ...free(`blocking, beside ${held.toLocaleString('en')} held`, 'sync'),
  subjects: [processLock, spreadProcessLock],
  floors: [],
  keys: MANY,
  makeKeys: () => Array.from({ length: MANY }, (_, i) => keyNamed(i)),
  held,
});

/**
 * @param {string} name
 * @param {import('./index.mjs').ProcessesWorkload['measure']} measure
 * @param {'sync' | 'async'} how
 * @param {Partial<import('./index.mjs').ProcessesWorkload>} [more]
 * @returns {import('./index.mjs').ProcessesWorkload}
 */
const together = (name, measure, how, more = {}) => ({
  ...common,
  name: `processes, ${name}, ${how}`,
  runner: 'processes',
  measure,
  how,
  subjects: [processLock],
  needs: [how === 'sync' ? 'sync' : 'run'],
  processes: 2,
  ...more,
});

/** What does not wait by blocking cannot do it. */
const grants = { processes: 8, mostRounds: 3 };
const pairs = { ...grants, processes: 4, threads: 2 };

/** @type {readonly import('./index.mjs').Workload[]} */
export const processes = [
  free('blocking', 'sync'),
  free('by try', 'try'),
  free('awaited', 'async'),
  besideHeld(1000),
  together('8 at one key', 'grants', 'sync', { ...grants, subjects: [processLock, fsNativeExtensions] }),
  together('8 at one key', 'grants', 'async', { ...grants, subjects: everybody }),
  together('4 with 2 threads each at one key', 'grants', 'sync', pairs),
  together('4 with 2 threads each at one key', 'grants', 'async', pairs),
  together('1 with 4 threads at one key', 'grants', 'async', { ...grants, processes: 1, threads: 4 }),
  together('from a release to the next holder', 'released', 'sync', {
    mostRounds: 3,
    subjects: [processLock, fsNativeExtensions],
  }),
  together('from a release to the next holder', 'released', 'async', { mostRounds: 3, subjects: everybody }),
  together('from SIGKILL of a holder to the next', 'killed', 'sync', { mostRounds: 2 }),
  together('from SIGKILL of a holder to the next', 'killed', 'async', { mostRounds: 2 }),
  together('100 that wait', 'waiting', 'sync', { processes: 100, mostRounds: 1 }),
  together('100 that wait', 'waiting', 'async', { processes: 100, mostRounds: 1 }),
];
