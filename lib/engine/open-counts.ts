import { HostFinalizationRegistry } from '../common/host.js';
import { addCount, COUNT, type LockKind, type ThreadCounts } from './contract/counts.js';
import { threadCounts } from './select.js';

/**
 * Returns the counts of `owner` for metrics, and adds `owner` to the count `locks`. The owner stays counted
 * until {@link closeCounts}, or until it is garbage-collected. Objects of one thread with the same kind and
 * name share their counts.
 */
export function openCounts(kind: LockKind, name: string, owner: object): ThreadCounts {
  const counts = threadCounts(kind, name);
  addCount(counts, COUNT.locks);
  collected.register(owner, counts, owner);
  return counts;
}

/** Removes `owner` from the count `locks`. Further calls for this owner have no effect. */
export function closeCounts(counts: ThreadCounts, owner: object): void {
  if (collected.unregister(owner)) addCount(counts, COUNT.locks, -1);
}

const collected = new HostFinalizationRegistry<ThreadCounts>((counts) => addCount(counts, COUNT.locks, -1));
