import { hasMemory, isBytes } from '../common/bytes.js';
import { invalidArg, invalidArgType, outOfRange } from '../common/errors.js';
import type { LockKey } from '../common/types.js';
import { CACHED_KEYS, StripeCache } from './stripe-cache.js';

/**
 * Passed as `at` for the only key of an acquisition, instead of an index. Such an acquisition must not look
 * up another key.
 */
export const ONLY_KEY = -1;

/** Finds the stripes of a lock's keys, in one thread. */
export interface KeyIndex {
  /**
   * Increases when keys may have lost their stripes. After an increase, a stripe that was looked up earlier
   * may belong to another key.
   */
  readonly unpins: number;
  /**
   * The stripe of a key. Throws for a value that is not a key. `at`: the key's index in
   * its list, or {@link ONLY_KEY}.
   */
  stripeOf(key: unknown, at: number): number;
  /**
   * The stripes of an acquisition's keys, in the order of the keys. `keys` must be a private
   * copy that user code cannot reach.
   */
  stripesOf(keys: readonly unknown[]): number[];
  /**
   * Reserves these stripes for their keys until {@link end}. Call this before user code runs,
   * unless the stripes are already held or waited for.
   */
  keep(stripes: readonly number[]): void;
  end(): void;
}

/** The maximum length of a string that a cache remembers. This limit bounds the memory of caches. */
const REMEMBERED_LENGTH = 256;
/**
 * The number of strings above {@link REMEMBERED_LENGTH} that {@link HashedKeys} remembers; a power of two.
 * Strings above {@link LONG_LENGTH} are never remembered.
 */
const LONG_STRINGS = 4;
const LONG_LENGTH = 65_536;

/** Whether a cache may remember a key. Bytes are never remembered, because the program can change them. */
export function isRememberable(key: unknown): boolean {
  return typeof key === 'string' ? key.length <= REMEMBERED_LENGTH : typeof key === 'number';
}

/**
 * `Array.isArray` for read-only lists. Returns false for a revoked Proxy, for which `Array.isArray` throws.
 */
export function isList<K extends LockKey>(keys: K | readonly K[]): keys is readonly K[] {
  try {
    return Array.isArray(keys);
  } catch {
    return false;
  }
}

/** Throws unless the value is a key. `at`: the key's index in its list, or {@link ONLY_KEY}. */
export function checkKey(key: unknown, at: number): void {
  if (typeof key === 'string') return;
  const name = at === ONLY_KEY ? 'key' : `keys[${at}]`;
  if (isBytes(key)) {
    if (hasMemory(key)) return;
    throw invalidArg(
      `${name} must be bytes that can be read; the memory of this Uint8Array was detached or shrank`,
    );
  }
  if (typeof key !== 'number') throw invalidArgType(name, 'a string, a safe integer or a Uint8Array', key);
  if (!Number.isSafeInteger(key)) throw outOfRange(name, 'a safe integer', key);
}

/**
 * Finds the stripes of a `StripedLock`'s keys in one thread, by hashing. A string is hashed once, and its
 * stripe is remembered in a map. A look-up in that map is several times cheaper than a call of the addon, or
 * than hashing in JavaScript.
 *
 * Long strings are not in the map: to look up a string, V8 must hash it, and V8 hashes a long string more
 * slowly than the addon does. Instead, a few long strings are remembered in a small table that is indexed by
 * their length. Comparing a long string with the remembered string is cheap, because the two strings are
 * usually the same object, or differ early.
 */
export class HashedKeys implements KeyIndex {
  readonly unpins = 0;
  readonly #stripes: number;
  /**
   * The mask that replaces a division by the number of stripes, if that number is a power of two; otherwise
   * -1.
   */
  readonly #mask: number;
  readonly #hash: (key: string | Uint8Array) => number;
  readonly #cache = new StripeCache(CACHED_KEYS, ignore);
  #long: { key: string; stripe: number }[] | undefined = undefined;

  constructor(stripes: number, hash: (key: string | Uint8Array) => number) {
    this.#stripes = stripes;
    this.#mask = (stripes & (stripes - 1)) === 0 ? stripes - 1 : -1;
    this.#hash = hash;
  }

  stripeOf(key: unknown, at: number): number {
    if (typeof key === 'string') return this.#cache.searched?.get(key) ?? this.#stringStripeSlow(key);
    if (typeof key === 'number' && (key | 0) === key) return this.#fold(mix(key));
    return this.#otherStripe(key, at);
  }

  stripesOf(keys: readonly unknown[]): number[] {
    const stripes = new Array<number>(keys.length);
    for (let i = 0; i < keys.length; i++) stripes[i] = this.stripeOf(keys[i], i);
    return stripes;
  }

  keep(): void {
    // Nothing to do, because a hashed key always has the same stripe.
  }

  end(): void {
    // Nothing to do: see `keep`.
  }

  #fold(hash: number): number {
    return this.#mask >= 0 ? hash & this.#mask : (hash >>> 0) % this.#stripes;
  }

  #otherStripe(key: unknown, at: number): number {
    checkKey(key, at);
    return typeof key === 'number' ? this.#fold(mix(longInteger(key))) : this.#hash(key as Uint8Array);
  }

  #stringStripeSlow(key: string): number {
    if (!isRememberable(key)) return this.#longStripe(key);
    const known = this.#cache.find(key);
    if (known !== undefined) return known;
    const stripe = this.#hash(key);
    this.#cache.add(key, stripe);
    return stripe;
  }

  #longStripe(key: string): number {
    if (key.length > LONG_LENGTH) return this.#hash(key);
    const long = (this.#long ??= Array.from({ length: LONG_STRINGS }, () => ({ key: '', stripe: -1 })));
    const last = long[key.length & (LONG_STRINGS - 1)]!;
    if (last.key !== key) {
      last.stripe = this.#hash(key);
      last.key = key;
    }
    return last.stripe;
  }
}

const ignore = (): void => undefined;

/** A constant derived from the golden ratio. Without it, `n * 2 ** 32` would have the same hash as `n`. */
const LOW_HALF = 0x9e37_79b9;

function longInteger(key: number): number {
  return mix((key | 0) ^ LOW_HALF) ^ Math.floor(key / 0x1_0000_0000);
}

/**
 * The finalizer of MurmurHash3 (Austin Appleby, public domain). A 32-bit integer is mixed once. For
 * a longer integer, {@link longInteger} mixes the low 32 bits and combines them with the high bits.
 * The result is then mixed again.
 */
function mix(value: number): number {
  let h = value;
  h = Math.imul(h ^ (h >>> 16), 0x85eb_ca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2_ae35);
  return h ^ (h >>> 16);
}
