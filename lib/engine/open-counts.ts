import { HostFinalizationRegistry } from '../common/host.js';
import { addCount, COUNT, type LockKind, type ThreadCounts } from './contract/counts.js';
import { threadCounts } from './select.js';

/**
 * The counts of an object that is open from now on, for metrics. It counts in `locks` until {@link closeCounts}, or until it
 * is garbage-collected. Objects of one thread with the same kind and name share their counts.
 */
export function openCounts(kind: LockKind, name: string, owner: object): ThreadCounts {
  const counts = threadCounts(kind, name);
  addCount(counts, COUNT.locks);
  collected.register(owner, counts, owner);
  return counts;
}

/** Has no effect after the first call for the owner. */
export function closeCounts(counts: ThreadCounts, owner: object): void {
  if (collected.unregister(owner)) addCount(counts, COUNT.locks, -1);
}

const collected = new HostFinalizationRegistry<ThreadCounts>((counts) => addCount(counts, COUNT.locks, -1));
