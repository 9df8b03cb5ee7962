// What a program pays before its first lock is held, and for having many locks.

import { floors } from '../subjects/floors.mjs';
import { asyncLock } from '../subjects/async-lock.mjs';
import { asyncMutex } from '../subjects/async-mutex.mjs';
import { processLock } from '../subjects/process-locks.mjs';
import { stripelock } from '../subjects/stripelock.mjs';

const ENGINES = [stripelock('native'), stripelock('javascript')];
const STRIPES = 1024;

const STARTING = {
  process: [...ENGINES, asyncMutex, asyncLock],
  worker: ENGINES,
  command: [processLock],
};

/**
 * @param {string} name
 * @param {import('./index.mjs').StartsWorkload['measure']} measure
 * @returns {import('./index.mjs').StartsWorkload}
 */
const starts = (name, measure) => ({
  name,
  group: 'first',
  runner: 'starts',
  measure,
  needs: [],
  keys: 1,
  stripes: STRIPES,
  floors: [],
  subjects: STARTING[measure],
});

/**
 * @param {string} name
 * @param {'lockMemory' | 'heldMemory'} measure
 * @param {readonly import('./index.mjs').Subject[]} subjects
 * @returns {import('./index.mjs').WaitersWorkload}
 */
const memory = (name, measure, subjects) => ({
  name,
  group: 'first',
  runner: 'waiters',
  measure,
  needs: [],
  keys: 1,
  stripes: STRIPES,
  floors: [],
  subjects,
  mostRounds: 3,
});

export const first = [
  starts('import, and the first lock of a process', 'process'),
  starts('import, and the first lock of a worker, not the first worker', 'worker'),
  starts('the command `stripelock run -- true`, against `node -e 0`', 'command'),
  {
    name: 'sync, hot string key, after 1000 other locks were dropped',
    group: 'first',
    runner: /** @type {const} */ ('single'),
    operation: 'sync',
    needs: /** @type {const} */ (['sync']),
    makeKeys: () => ['account:1234567', 'account:1234567'],
    stripes: STRIPES,
    keys: 1,
    floors: [floors.compareExchange],
    subjects: ENGINES,
    dropped: 1000,
  },
  memory('memory of an idle lock that was used once, of 1000', 'lockMemory', [
    ...ENGINES,
    asyncMutex,
    asyncLock,
  ]),
  memory('memory of a held key, of 100,000', 'heldMemory', [...ENGINES, asyncLock]),
];
