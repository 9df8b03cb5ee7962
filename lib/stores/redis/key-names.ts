import { encodeText } from '../exact-text.js';

/** Enough to spread the leases over the nodes of any cluster, and few enough to be kept forever. */
const BUCKETS = 1024;
const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/**
 * Where leases are kept. All leases of a bucket share one highest token, and a hash tag, so that everything about a lease is
 * in one slot of a cluster:
 *
 *     stripelock:{17}:job:nightly     a lease
 *     stripelock:{17}?job:nightly     the stores that wait for it, while there are any
 *     stripelock:{17}                 the highest token of bucket 17
 *
 * No prefix has braces.
 */
export function leaseName(prefix: string, key: string): string {
  const text = encodeText(key);
  return `${prefix}{${bucketOf(text)}}:${text}`;
}

/** The name of the bucket's highest token, from that of a lease. */
export function highestOf(lease: string): string {
  return lease.slice(0, lease.indexOf('}') + 1);
}

/** The name of the waiters, from that of the lease. */
export function waitersOf(lease: string): string {
  const end = lease.indexOf('}') + 1;
  return `${lease.slice(0, end)}?${lease.slice(end + 1)}`;
}

/** FNV-1a: it must be the same in every client of every version. */
function bucketOf(text: string): number {
  let hash = FNV_OFFSET;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, FNV_PRIME);
  return (hash >>> 0) % BUCKETS;
}
