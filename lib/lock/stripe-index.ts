import { isBytes } from '../common/bytes.js';
import { invalidArgType, outOfRange } from '../common/errors.js';
import { CACHED_STRINGS, StripeCache } from './stripe-cache.js';

/** After so many misses, a sample tells whether the cache pays. */
const MISSES = 1024;
/** Before the first sample, as many keys as fit can get into the cache. */
const FIRST_MISSES = 2 * CACHED_STRINGS;
/** Look-ups in a sample; half of them must be hits. */
const SAMPLE = 64;
/** If fewer are, so many strings bypass the cache. */
const PASSED = 4096;
/** Longer strings stay out of the cache. */
const CACHED_LENGTH = 256;
/** So many of the last longer strings, up to {@link LONG_LENGTH}, are remembered. A power of two. */
const LONG_STRINGS = 4;
const LONG_LENGTH = 65_536;

/**
 * Which stripe a key maps to, for one thread and one lock. Strings are hashed once and then remembered: a look-up in a
 * Map is several times cheaper than a call into the addon, or than hashing in JavaScript. See {@link StripeCache}.
 *
 * A miss costs more than hashing at once: V8 compares the string with others anywhere in memory, and storing it costs
 * even more. So if most keys are new, strings bypass the cache, except for an occasional sample that shows whether the
 * cache pays again.
 *
 * A Map would hash a long string, too, which takes V8 longer than the addon. Comparing it with the last one of similar
 * length is cheap: it is usually the same object, or differs early.
 */
export class StripeIndex {
  readonly #stripes: number;
  /** The mask that replaces a division if the number of stripes is a power of two; else -1. */
  readonly #mask: number;
  readonly #hash: (key: string | Uint8Array) => number;
  readonly #cache = new StripeCache();
  /** The cache's young generation; undefined while all strings take the slow way. */
  #searched: ReadonlyMap<string | number, number> | undefined = this.#cache.young;
  /** How many strings still bypass the cache. */
  #toPass = 0;
  /** How many look-ups the sample still needs. */
  #toSample = 0;
  /** Hits of the sample so far. */
  #found = 0;
  #missesLeft = FIRST_MISSES;
  #long: { key: string; stripe: number }[] | undefined = undefined;

  constructor(stripes: number, hash: (key: string | Uint8Array) => number) {
    this.#stripes = stripes;
    this.#mask = (stripes & (stripes - 1)) === 0 ? stripes - 1 : -1;
    this.#hash = hash;
  }

  /** Throws for a value that cannot be a key; `name` is what the error calls it. */
  stripeOf(key: unknown, name: string): number {
    if (typeof key === 'string') return this.#searched?.get(key) ?? this.#stringStripeSlow(key);
    if (typeof key === 'number' && (key | 0) === key) return this.#fold(mix(key));
    return this.#otherStripe(key, name);
  }

  #fold(hash: number): number {
    return this.#mask >= 0 ? hash & this.#mask : (hash >>> 0) % this.#stripes;
  }

  #otherStripe(key: unknown, name: string): number {
    if (typeof key === 'number') return this.#fold(mix(longInteger(key, name)));
    if (isBytes(key)) return this.#hash(key);
    throw invalidArgType(name, 'a string, a safe integer or a Uint8Array', key);
  }

  #stringStripeSlow(key: string): number {
    if (key.length > CACHED_LENGTH) return this.#longStripe(key);
    if (this.#toPass > 0) {
      if (--this.#toPass === 0) this.#toSample = SAMPLE;
      return this.#hash(key);
    }
    if (this.#toSample > 0) return this.#sampledStripe(key);
    if (--this.#missesLeft === 0) {
      this.#searched = undefined;
      this.#toSample = SAMPLE;
    }
    return this.#remember(key, this.#cache.inOld(key) ?? this.#hash(key));
  }

  #sampledStripe(key: string): number {
    const young = this.#cache.young.get(key);
    const known = young ?? this.#cache.inOld(key);
    if (known !== undefined) this.#found++;
    if (--this.#toSample === 0) {
      if (this.#found < SAMPLE / 2) this.#toPass = PASSED;
      else this.#searched = this.#cache.young;
      this.#found = 0;
      this.#missesLeft = MISSES;
    }
    return young ?? this.#remember(key, known ?? this.#hash(key));
  }

  #remember(key: string, stripe: number): number {
    const cache = this.#cache;
    cache.add(key, stripe);
    if (this.#searched !== undefined) this.#searched = cache.young;
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

/** Derived from the golden ratio. Keeps the low half from cancelling out a high half of the same value. */
const LOW_HALF = 0x9e37_79b9;

function longInteger(key: number, name: string): number {
  if (!Number.isSafeInteger(key)) throw outOfRange(name, 'a safe integer', key);
  return mix((key | 0) ^ LOW_HALF) ^ Math.floor(key / 0x1_0000_0000);
}

/**
 * The finalizer of MurmurHash3 (Austin Appleby, public domain). A 32-bit integer is mixed once. For a longer one it
 * mixes the low 32 bits, and then the result together with the high bits.
 */
function mix(value: number): number {
  let h = value;
  h = Math.imul(h ^ (h >>> 16), 0x85eb_ca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2_ae35);
  return h ^ (h >>> 16);
}
