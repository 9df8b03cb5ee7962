// What is compared. Each subject can do some of the operations; a workload asks for the one that it needs and
// leaves out those that have it not.
//
//   sync(key)        takes and gives back, blocking
//   syncMany(keys)   the same for several keys at once
//   async(key)       takes and gives back, awaited
//   asyncMany(keys)

import { stripelock } from './stripelock.mjs';
import { asyncLock } from './async-lock.mjs';
import { asyncMutex } from './async-mutex.mjs';
import { atomicsMutex } from './atomics-mutex.mjs';

export const subjects = [
  stripelock('native'),
  stripelock('javascript'),
  atomicsMutex(),
  asyncMutex(),
  asyncLock(),
];
