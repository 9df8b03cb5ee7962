import { createHash } from 'node:crypto';
import { invalidArgType, outOfRange } from '../../common/errors.js';

const DEFAULT_PREFIX = 'stripelock:';
/** Characters: Memcached takes 250. */
const LONGEST_PREFIX = 100;
const LONGEST_KEY = 140;
/** A key that any cache takes. It does not begin with the mark of a hash. */
const PLAIN = /^[!"$-~][!-~]*$/;
const VERSION = 1;

/** What the cache has at a key. */
export interface Record {
  /** Undefined if the key is free, and the token is only kept. */
  readonly owner: string | undefined;
  readonly token: bigint;
  /** When the lease ends on the wall clock of its holder, which nobody relies on. */
  readonly ends: number;
  /** Empty for none. */
  readonly info: string;
}

/** JSON can keep every string, also with lone surrogates. */
export function encodeRecord({ owner, token, ends, info }: Record): string {
  return JSON.stringify({
    v: VERSION,
    token: String(token),
    ...(owner !== undefined && { owner, ends }),
    ...(info !== '' && { info }),
  });
}

/** Undefined for what no store of this kind has written. */
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

/** The cache's name for a key. A key that is long, or has other characters than printable ASCII, is hashed. */
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
