// The mutations that `npm run mutate` plants, each with the tests that must find it.
//
// A line of the core that no entry changes could be deleted unnoticed: a change there brings its mutations along.

import { leaseMutations } from './leases.mjs';
import { nameMutations } from './names.mjs';
import { namedMutations } from './named.mjs';
import { nativeMutations } from './native.mjs';
import { permitMutations } from './permits.mjs';

/**
 * @typedef {object} Edit
 * @property {string} file
 * @property {string} find Occurs exactly once in the file; else the entry has fallen behind, and fails.
 * @property {string} replace
 *
 * @typedef {object} Mutation
 * @property {string} name What the mutation does, as a sentence.
 * @property {readonly Edit[]} edits
 * @property {string} tests A filter of GoogleTest: the fewest tests that find it.
 * @property {string} variant Of the build, as `npm run test:native` names it.
 * @property {boolean} [smoke] Whether it is one of the few that run in `.ci/run`.
 * @property {string} [argued] Instead of tests: why nothing can find it. Not run.
 */

/** @type {readonly Mutation[]} */
export const mutations = [
  ...nativeMutations,
  ...leaseMutations,
  ...nameMutations,
  ...namedMutations,
  ...permitMutations,
];
