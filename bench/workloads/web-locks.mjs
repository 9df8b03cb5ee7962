// Locks by the Web Locks API: stripelock's, Node's own, and those of the package `web-locks`.

import { floors } from '../subjects/floors.mjs';
import { nodeLocks } from '../subjects/node-locks.mjs';
import { stripelockWebLocks } from '../subjects/stripelock-web-locks.mjs';
import { webLocksPackage } from '../subjects/web-locks.mjs';

const NAME = 'account:1234567';
const EIGHT = Array.from({ length: 8 }, (_, i) => `account:${i * 7919}`);

/** The package `web-locks` fails if a callback returns no promise. */
const common = { group: 'web locks', stripes: 1, subjects: [stripelockWebLocks, nodeLocks] };
const withPackage = [stripelockWebLocks, nodeLocks, webLocksPackage];

/**
 * @param {string} name
 * @param {string} operation
 * @param {readonly import('../subjects/index.mjs').Subject[]} [subjects]
 * @returns {import('./index.mjs').SingleWorkload}
 */
const single = (name, operation, subjects = common.subjects) => ({
  ...common,
  subjects,
  name: `web locks, ${name}`,
  runner: 'single',
  operation,
  needs: ['run'],
  keys: operation === 'runNested' ? EIGHT.length : 1,
  makeKeys: () => (operation === 'runNested' ? EIGHT : [NAME, NAME]),
  floors: [floors.bareAwait],
});

/**
 * Without an await under the lock: on some versions of Node, its own locks nearly stop if several threads await under
 * them.
 *
 * @param {number} inFlight In each thread.
 * @returns {import('./index.mjs').ThreadsWorkload}
 */
const threads = (inFlight) => ({
  ...common,
  name: `web locks, 4 threads, 64 names, ${inFlight} in flight`,
  runner: 'threads',
  needs: ['run', 'threads'],
  floors: [],
  distribution: 'uniform',
  keysAtOnce: 1,
  threads: 4,
  keys: 64,
  inFlight,
  awaits: false,
});

/** @type {readonly import('./index.mjs').Workload[]} */
export const webLocks = [
  single('a callback that returns nothing', 'runPlain'),
  single('a callback that returns a promise', 'run', withPackage),
  single('with a live signal', 'runSignal'),
  single('8 nested names', 'runNested'),
  threads(1),
  threads(100),
  {
    ...common,
    // Node's own take minutes to queue that many.
    subjects: [stripelockWebLocks, webLocksPackage],
    name: 'web locks, memory of a waiter, 100,000 waiting',
    runner: 'waiters',
    measure: 'memory',
    needs: ['run'],
    floors: [],
    keys: 1,
    mostRounds: 3,
  },
  {
    ...common,
    // Node's own wake nobody, on 24.21 and 26.10.
    subjects: [stripelockWebLocks],
    name: 'web locks, from a terminated holder to the next',
    runner: 'dead-holder',
    needs: ['run', 'threads'],
    floors: [],
    keys: 1,
    mostRounds: 3,
  },
];
