// The mutations that `npm run mutate` plants, each with the tests that must tell it. An entry:
//
//   kind      'native': C++, told by tests of native/test
//   name      what the mutation does, as a sentence
//   edits     { file, find, replace }: `find` occurs exactly once in the file; an entry that has fallen behind fails
//   tests     a filter as GoogleTest has it. The fewest that do
//   variant   of the build, as `npm run test:native` names it
//   smoke     whether it is one of the few that run in .ci/run
//   argued    instead of tests: why nothing can tell it. Not run
//
// A line of the core that no entry misses is one that could be deleted: a change there brings its mutations along.

import { nativeMutations } from './native.mjs';

export const mutations = [...nativeMutations];
