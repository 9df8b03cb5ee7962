// A very large number of waiters for one key, and what they cost themselves and others.

import { floors } from '../subjects/floors.mjs';

/**
 * @param {string} name
 * @param {import('./index.mjs').WaitersWorkload['measure']} measure
 * @param {readonly import('./index.mjs').Ability[]} needs
 * @param {Partial<Pick<import('./index.mjs').WaitersWorkload, 'keys' | 'floors'>>} [more]
 * @returns {import('./index.mjs').WaitersWorkload}
 */
const workload = (name, measure, needs, more = {}) => ({
  name,
  group: 'waiters',
  runner: 'waiters',
  measure,
  needs,
  floors: [],
  keys: 2,
  stripes: 1024,
  // Each round takes seconds for some subjects, and figures over a hundred thousand waiters hardly vary.
  mostRounds: 3,
  ...more,
});

export const waiters = [
  workload('memory of a waiter, 100,000 waiting', 'memory', ['run'], { keys: 1 }),
  workload('cancel a waiter, 100,000 waiting', 'cancel', ['run', 'abort'], {
    keys: 1,
    floors: [floors.abortSignal],
  }),
  workload('an unrelated free key, 100,000 waiting, async', 'unrelatedAsync', ['run']),
  workload('an unrelated free key, 100,000 waiting, sync', 'unrelatedSync', ['run', 'sync']),
];
