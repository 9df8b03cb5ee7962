import { invalidArgType, outOfRange } from './errors.js';

/** Hashes remembered at most twice over: see {@link StripeIndex}. */
const CACHE_ENTRIES = 8192;
/** Longer strings are hashed each time, so that the cache stays below a few megabytes. */
const CACHED_LENGTH = 256;

/**
 * Which stripe a key maps to, for one thread and one lock. Strings are hashed once and then remembered: a
 * look-up in a Map is several times cheaper than a call into the addon, or than hashing in JavaScript.
 *
 * The cache is bounded by keeping two generations: when the young one is full, it becomes the old one, and
 * what was old and has not been asked for since is forgotten. So keys in steady use stay, at the cost of one
 * more look-up per generation, and no order of use has to be kept.
 */
export class StripeIndex {
  readonly #stripes: number;
  /** Where the number of stripes is a power of two, a mask does what a division does; else -1. */
  readonly #mask: number;
  readonly #hash: (key: string | Uint8Array) => number;
  #young = new Map<string, number>();
  #old = new Map<string, number>();

  constructor(stripes: number, hash: (key: string | Uint8Array) => number) {
    this.#stripes = stripes;
    this.#mask = (stripes & (stripes - 1)) === 0 ? stripes - 1 : -1;
    this.#hash = hash;
  }

  /** Throws for what cannot be a key; `name` is what the error calls it. */
  stripeOf(key: unknown, name: string): number {
    if (typeof key === 'string') return this.#young.get(key) ?? this.#stringStripeSlow(key);
    if (typeof key === 'number' && (key | 0) === key) return this.#fold(mix(key));
    return this.#otherStripe(key, name);
  }

  #fold(hash: number): number {
    return this.#mask >= 0 ? hash & this.#mask : (hash >>> 0) % this.#stripes;
  }

  #otherStripe(key: unknown, name: string): number {
    if (typeof key === 'number') return this.#fold(mix(longInteger(key, name)));
    if (key instanceof Uint8Array) return this.#hash(key);
    throw invalidArgType(name, 'a string, a safe integer or a Uint8Array', key);
  }

  #stringStripeSlow(key: string): number {
    if (key.length > CACHED_LENGTH) return this.#hash(key);
    const stripe = this.#old.get(key) ?? this.#hash(key);
    if (this.#young.size >= CACHE_ENTRIES) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, stripe);
    return stripe;
  }
}

/** Keeps the low half apart from a high half of the same value; from the golden ratio, as usual. */
const LOW_HALF = 0x9e37_79b9;

function longInteger(key: number, name: string): number {
  if (!Number.isSafeInteger(key)) throw outOfRange(name, 'a safe integer', key);
  return mix((key | 0) ^ LOW_HALF) ^ Math.floor(key / 0x1_0000_0000);
}

/**
 * The finalizer of MurmurHash3 (Austin Appleby, public domain). For an integer of 32 bits over these; for a longer one
 * over its low 32 bits, and then over those mixed with the high ones.
 */
function mix(value: number): number {
  let h = value;
  h = Math.imul(h ^ (h >>> 16), 0x85eb_ca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2_ae35);
  return h ^ (h >>> 16);
}
