import { encodeText } from '../exact-text.js';

/**
 * The number of buckets. This number is large enough to spread leases across the nodes of any cluster, and
 * small enough to keep the tokens of all buckets forever.
 */
const BUCKETS = 1024;
const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/**
 * The name of a lease's key. The leases of a bucket share one highest token. They also share a hash tag, so
 * all keys of a bucket are in one cluster slot:
 *
 *     stripelock:{17}:job:nightly     a lease
 *     stripelock:{17}?job:nightly     the stores that wait for the lease; absent if no store waits
 *     stripelock:{17}!job:nightly     the lease's mark, which its holder's release deletes; see `SET_MARK`
 *     stripelock:{17}                 the highest token of bucket 17
 *
 * A prefix contains no braces.
 */
export function leaseName(prefix: string, key: string): string {
  const text = encodeText(key);
  return `${prefix}{${bucketOf(text)}}:${text}`;
}

/** The encoded key that is part of a lease's name. Undefined if the name belongs to no lease. */
export function textOf(prefix: string, lease: string): string | undefined {
  const begin = lease.indexOf('}:') + 2;
  const text = lease.slice(begin);
  return begin > 1 && lease.slice(0, begin) === `${prefix}{${bucketOf(text)}}:` ? text : undefined;
}

/** A pattern that matches the keys of all leases. */
export function leasePattern(prefix: string): string {
  return `${prefix.replace(/[\\*?[\]]/g, '\\$&')}{*}:*`;
}

/** The name of the bucket's highest token, derived from a lease's name. */
export function highestOf(lease: string): string {
  return lease.slice(0, lease.indexOf('}') + 1);
}

/** The name of a lease's waiters, derived from the lease's name. */
export function waitersOf(lease: string): string {
  return otherOf(lease, '?');
}

/** The name of a lease's mark, derived from the lease's name. */
export function markOf(lease: string): string {
  return otherOf(lease, '!');
}

function otherOf(lease: string, sign: string): string {
  const end = lease.indexOf('}') + 1;
  return `${lease.slice(0, end)}${sign}${lease.slice(end + 1)}`;
}

/** The bucket of a text, by the FNV-1a hash. Clients of all versions must compute the same bucket. */
function bucketOf(text: string): number {
  let hash = FNV_OFFSET;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, FNV_PRIME);
  return (hash >>> 0) % BUCKETS;
}
