import { hasMemory, isBytes } from '../common/bytes.js';
import { invalidArg, invalidArgType, outOfRange } from '../common/errors.js';
import { CACHED_KEYS, StripeCache } from './stripe-cache.js';

/** What errors call the only key of an acquisition, which has looked up nothing else. */
export const ONLY_KEY = 'key';

/** How a lock finds the stripes of keys, in one thread. */
export interface KeyIndex {
  /** How often keys may have lost their stripes: what was looked up before may be another key's now. */
  readonly unpins: number;
  /** Throws for a value that cannot be a key; `name` is what the error calls it. */
  stripeOf(key: unknown, name: string): number;
  /** From here to {@link end} an acquisition looks up stripes and takes them, while code of the program may run. */
  begin(): void;
  /** The acquisition has looked up these stripes, and its keys have them until {@link end}: before code of the program may run. */
  keep(stripes: readonly number[]): void;
  end(): void;
  /** Whether an acquisition that has just failed with this error, and has nothing, may find room if it starts again. `attempt`: how often it has. */
  makeRoom(error: unknown, attempt: number): boolean;
}

/** Longer strings are not remembered, so that a cache stays below a few megabytes. */
const REMEMBERED_LENGTH = 256;
/** This many of the last longer strings, up to {@link LONG_LENGTH}, are remembered. A power of two. */
const LONG_STRINGS = 4;
const LONG_LENGTH = 65_536;

/** Whether a key may be remembered. Not bytes, as they can be written to. */
export function isRememberable(key: unknown): boolean {
  return typeof key === 'string' ? key.length <= REMEMBERED_LENGTH : typeof key === 'number';
}

/** Throws unless the value is a key. */
export function checkKey(key: unknown, name: string): void {
  if (typeof key === 'string') return;
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
 * Which stripe a key is hashed to. Strings are hashed once and then remembered: a look-up in a Map is several times
 * cheaper than a call into the addon, or than hashing in JavaScript.
 *
 * A Map would hash a long string, too, which takes V8 longer than the addon. Comparing it with the last one of similar
 * length is cheap: it is usually the same object, or differs early.
 */
export class HashedKeys implements KeyIndex {
  readonly unpins = 0;
  readonly #stripes: number;
  /** The mask that replaces a division if the number of stripes is a power of two; else -1. */
  readonly #mask: number;
  readonly #hash: (key: string | Uint8Array) => number;
  readonly #cache = new StripeCache(CACHED_KEYS, ignore);
  #long: { key: string; stripe: number }[] | undefined = undefined;

  constructor(stripes: number, hash: (key: string | Uint8Array) => number) {
    this.#stripes = stripes;
    this.#mask = (stripes & (stripes - 1)) === 0 ? stripes - 1 : -1;
    this.#hash = hash;
  }

  stripeOf(key: unknown, name: string): number {
    if (typeof key === 'string') return this.#cache.searched?.get(key) ?? this.#stringStripeSlow(key);
    if (typeof key === 'number' && (key | 0) === key) return this.#fold(mix(key));
    return this.#otherStripe(key, name);
  }

  begin(): void {
    // A key has the same stripe at all times.
  }

  keep(): void {
    // See begin().
  }

  end(): void {
    // See begin().
  }

  makeRoom(): boolean {
    return false;
  }

  #fold(hash: number): number {
    return this.#mask >= 0 ? hash & this.#mask : (hash >>> 0) % this.#stripes;
  }

  #otherStripe(key: unknown, name: string): number {
    checkKey(key, name);
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

/** Derived from the golden ratio. Keeps the low half from cancelling out a high half of the same value. */
const LOW_HALF = 0x9e37_79b9;

function longInteger(key: number): number {
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
