import { encodeText } from '../exact-text.js';

/** Enough to spread leases across the nodes of any cluster, and few enough to keep forever. */
const BUCKETS = 1024;
const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/**
 * The names of a lease's keys. The leases of a bucket share one highest token and a hash tag, so all keys of a lease
 * are in one cluster slot:
 *
 *     stripelock:{17}:job:nightly     a lease
 *     stripelock:{17}?job:nightly     the stores that wait for it; absent without such stores
 *     stripelock:{17}                 the highest token of bucket 17
 *
 * A prefix contains no braces.
 */
export function leaseName(prefix: string, key: string): string {
  const text = encodeText(key);
  return `${prefix}{${bucketOf(text)}}:${text}`;
}

/** The key of the bucket's highest token, derived from a lease's key. */
export function highestOf(lease: string): string {
  return lease.slice(0, lease.indexOf('}') + 1);
}

/** The key of the waiters, derived from the lease's key. */
export function waitersOf(lease: string): string {
  const end = lease.indexOf('}') + 1;
  return `${lease.slice(0, end)}?${lease.slice(end + 1)}`;
}

/** FNV-1a. Every client of every version must compute the same bucket. */
function bucketOf(text: string): number {
  let hash = FNV_OFFSET;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, FNV_PRIME);
  return (hash >>> 0) % BUCKETS;
}
