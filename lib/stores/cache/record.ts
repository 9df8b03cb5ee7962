import { createHash } from 'node:crypto';
import { invalidArgType, outOfRange } from '../../common/errors.js';

const DEFAULT_PREFIX = 'stripelock:';
/**
 * The maximum lengths of the prefix and of a key, in characters. Memcached limits the whole key to 250
 * characters.
 */
const LONGEST_PREFIX = 100;
const LONGEST_KEY = 140;
/** Matches keys that any cache accepts and that do not start with '#'. Hashed keys start with '#'. */
const PLAIN = /^[!"$-~][!-~]*$/;
const VERSION = 1;

/** The value that the cache stores at a key. */
export interface Record {
  /** Undefined if the key is free. In that case, the record only keeps the last token. */
  readonly owner: string | undefined;
  readonly token: bigint;
  /**
   * The end of the lease in milliseconds, as measured by the holder's wall clock. Used only for estimates.
   */
  readonly ends: number;
  /** Empty for a lease without info. */
  readonly info: string;
}

/** Encodes a record as JSON, which preserves every string, including lone surrogates. */
export function encodeRecord({ owner, token, ends, info }: Record): string {
  return JSON.stringify({
    v: VERSION,
    token: String(token),
    ...(owner !== undefined && { owner, ends }),
    ...(info !== '' && { info }),
  });
}

/** Returns undefined for a value that this kind of store did not write. */
export function decodeRecord(value: unknown): Record | undefined {
  try {
    const { v, token, owner, ends = 0, info = '' } = JSON.parse(String(value)) as { [name: string]: unknown };
    if (v !== VERSION || typeof token !== 'string' || typeof ends !== 'number') return undefined;
    if (!/^\d+$/.test(token) || typeof info !== 'string') return undefined;
    if (owner !== undefined && typeof owner !== 'string') return undefined;
    return { owner, token: BigInt(token), ends, info };
  } catch {
    return undefined;
  }
}

/** The cache's name for a key. Long keys, and keys with characters outside printable ASCII, are hashed. */
export function nameOf(prefix: string, key: string): string {
  if (key.length <= LONGEST_KEY && PLAIN.test(key)) return prefix + key;
  return `${prefix}#${createHash('sha256').update(key, 'utf16le').digest('base64url')}`;
}

export function checkPrefix(prefix: unknown): string {
  if (prefix === undefined) return DEFAULT_PREFIX;
  if (typeof prefix !== 'string') throw invalidArgType('options.prefix', 'a string', prefix);
  if (prefix.length <= LONGEST_PREFIX && /^[!-~]*$/.test(prefix)) return prefix;
  throw outOfRange(
    'options.prefix',
    `a string of at most ${LONGEST_PREFIX} printable ASCII characters`,
    prefix,
  );
}
