import { invalidArgType, outOfRange } from '../../common/errors.js';
import { encodeText } from '../exact-text.js';

/** Enough to spread the leases over the nodes of any cluster, and few enough to be kept forever. */
const BUCKETS = 1024;
const DEFAULT_PREFIX = 'stripelock:';
/** For how many keys the names are remembered. */
const REMEMBERED = 1024;
const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/**
 * Where a lease is kept. All leases of a bucket share one highest token, and a hash tag, so that everything about a lease
 * is in one slot of a cluster:
 *
 *     stripelock:{17}:job:nightly     a lease
 *     stripelock:{17}?job:nightly     the stores that wait for it, while there are any
 *     stripelock:{17}                 the highest token of bucket 17
 */
export interface KeyNames {
  readonly lease: string;
  readonly waiters: string;
  readonly highest: string;
}

/** The names for all keys with a prefix. It remembers some, since a lease is acquired, renewed and released. */
export class KeyNaming {
  readonly #prefix: string;
  readonly #known = new Map<string, KeyNames>();

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  of(key: string): KeyNames {
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const text = encodeText(key);
    const highest = `${this.#prefix}{${bucketOf(text)}}`;
    const names = { lease: `${highest}:${text}`, waiters: `${highest}?${text}`, highest };
    if (this.#known.size >= REMEMBERED) this.#known.clear();
    this.#known.set(key, names);
    return names;
  }
}

/** The name of the waiters, from the lease's name. */
export function waitersOf(lease: string): string {
  return lease.replace('}:', '}?');
}

/** FNV-1a: it must be the same in every client of every version. */
function bucketOf(text: string): number {
  let hash = FNV_OFFSET;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, FNV_PRIME);
  return (hash >>> 0) % BUCKETS;
}

export function checkPrefix(prefix: unknown): string {
  if (prefix === undefined) return DEFAULT_PREFIX;
  if (typeof prefix !== 'string') throw invalidArgType('options.prefix', 'a string', prefix);
  if (/[{}]/.test(prefix)) throw outOfRange('options.prefix', 'a string without braces', prefix);
  return prefix;
}
