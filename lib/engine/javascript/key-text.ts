import { copyOfBytes, lengthOfBytes } from '../../common/bytes.js';
import { outOfRange } from '../../common/errors.js';
import type { LockKey } from '../../common/types.js';

/*
 * How a key lies in its record of `key-names.ts`: a number for its kind and length, and units of 16 bits: those of a string,
 * which are exact for every string, the digits of a number, or two bytes each.
 */

const KIND_SHIFT = 16;
const LENGTH_MASK = (1 << KIND_SHIFT) - 1;
const STRING = 1;
const NUMBER = 2;
const BYTES = 3;

/** The key that a thread looks up. */
export class KeyText {
  readonly units: Uint16Array;
  /** The kind and the length; never 0. */
  meta = 0;
  hash = 0;
  readonly #most: number;

  /** For keys of so many units at most. */
  constructor(most: number) {
    this.units = new Uint16Array(most);
    this.#most = most;
  }

  /** Keeps a copy of a key. Throws a RangeError (ERR_OUT_OF_RANGE) if it is too long. */
  read(key: LockKey): void {
    if (typeof key === 'string') this.#readText(STRING, key);
    // Digits are as good as bits, and -0 has those of 0.
    else if (typeof key === 'number') this.#readText(NUMBER, String(key));
    else this.#readBytes(copyOfBytes(key));
    let hash = this.meta;
    const length = lengthIn(this.meta);
    for (let i = 0; i < length; i++) hash = Math.imul(hash ^ this.units[i]!, 0x0100_0193) ^ (hash >>> 15);
    this.hash = hash;
  }

  #readText(kind: number, text: string): void {
    const { length } = text;
    if (length > this.#most)
      throw outOfRange('key.length', `at most ${this.#most} on the JavaScript engine`, length);
    for (let i = 0; i < length; i++) this.units[i] = text.charCodeAt(i);
    this.meta = (kind << KIND_SHIFT) | length;
  }

  #readBytes(bytes: Uint8Array): void {
    const count = lengthOfBytes(bytes);
    if (count > 2 * this.#most)
      throw outOfRange('key.byteLength', `at most ${2 * this.#most} on the JavaScript engine`, count);
    for (let i = 0; 2 * i < count; i++) this.units[i] = bytes[2 * i]! | ((bytes[2 * i + 1] ?? 0) << 8);
    this.meta = (BYTES << KIND_SHIFT) | count;
  }
}

/** How many units a key has. */
export function lengthIn(meta: number): number {
  const length = meta & LENGTH_MASK;
  return meta >> KIND_SHIFT === BYTES ? (length + 1) >> 1 : length;
}

/** The key; undefined if there is none. */
export function keyFrom(meta: number, units: Uint16Array): LockKey | undefined {
  const length = meta & LENGTH_MASK;
  const text = String.fromCharCode(...units.subarray(0, lengthIn(meta)));
  switch (meta >> KIND_SHIFT) {
    case STRING:
      return text;
    case NUMBER:
      return Number(text);
    case BYTES:
      return Uint8Array.from({ length }, (_, i) => units[i >> 1]! >> (8 * (i & 1)));
    default:
      return undefined;
  }
}
