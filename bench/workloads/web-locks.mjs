// Locks by the Web Locks API: stripelock's, Node's own, and those of the package `web-locks`.

import { floors } from '../subjects/floors.mjs';
import { nodeLocks } from '../subjects/node-locks.mjs';
import { stripelockWebLocks } from '../subjects/stripelock-web-locks.mjs';
import { webLocksPackage } from '../subjects/web-locks.mjs';

const NAME = 'account:1234567';
const EIGHT = Array.from({ length: 8 }, (_, i) => `account:${i * 7919}`);

const common = {
  group: 'web locks',
  stripes: 1,
  subjects: [stripelockWebLocks, nodeLocks, webLocksPackage],
};

/**
 * @param {string} name
 * @param {string} operation
 * @param {readonly import('./index.mjs').Ability[]} [needs]
 * @returns {import('./index.mjs').SingleWorkload}
 */
const single = (name, operation, needs = ['run']) => ({
  ...common,
  name: `web locks, ${name}`,
  runner: 'single',
  operation,
  needs,
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
  single('a callback that returns a promise', 'run'),
  single('with a live signal', 'runSignal', ['run', 'abort']),
  single('8 nested names', 'runNested'),
  threads(1),
  threads(100),
  {
    ...common,
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
    name: 'web locks, from a terminated holder to the next',
    runner: 'dead-holder',
    needs: ['run', 'threads'],
    floors: [],
    keys: 1,
    mostRounds: 3,
  },
];
