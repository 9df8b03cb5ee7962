// A file of 1 KiB of JSON that several processes change.

import { lockedFileFloors, lockedFiles } from '../subjects/locked-files.mjs';

const common = { group: 'files', stripes: 1, keys: 1, subjects: lockedFiles };

/** @type {readonly import('./index.mjs').Workload[]} */
export const files = [
  {
    ...common,
    name: 'files, an update',
    runner: 'single',
    operation: 'run',
    needs: ['run'],
    makeKeys: () => ['state'],
    floors: lockedFileFloors,
  },
  {
    ...common,
    name: 'files, 8 processes at one file',
    runner: 'processes',
    measure: 'grants',
    how: 'async',
    needs: ['run'],
    processes: 8,
    mostRounds: 3,
    floors: [],
  },
];
