// Leases on the memory store, in one thread.

import { floors } from '../subjects/floors.mjs';
import { leaseSubjects } from '../subjects/leases.mjs';

/**
 * @param {string} name
 * @param {readonly import('./index.mjs').Subject[]} subjects
 * @param {number} [keys]
 * @returns {import('./index.mjs').SingleWorkload}
 */
const workload = (name, subjects, keys = 1) => ({
  name,
  group: 'leases',
  runner: 'single',
  operation: 'own',
  needs: [],
  makeKeys: () => [],
  stripes: 1,
  keys,
  floors: [floors.bareAwait],
  subjects,
});

export const leases = [
  workload('lease, acquire + release', leaseSubjects.acquisition),
  workload('lease, renew', leaseSubjects.renewal),
  workload('lease, 1,000,000 keys', leaseSubjects.manyKeys, 1_000_000),
];
