import { copyOfBytes } from '../../common/bytes.js';
import type { KeyState, LockKey } from '../../common/types.js';
import type { StripeCounts } from '../contract/engine.js';
import { NO_STRIPE, PINNED_AGAIN, type ExactKeys } from '../contract/exact-keys.js';
import type { JavaScriptTable } from './table.js';

const NOT_USED: StripeCounts = { word: 0, waiting: 0 };

/** The exact keys of a table of one thread. */
export class JavaScriptExactKeys implements ExactKeys {
  pinned: object | undefined = undefined;
  readonly #table: JavaScriptTable;
  readonly #stripes = new Map<string | number, number>();
  /** The same for bytes, as text of one character for each. */
  readonly #stripesOfBytes = new Map<string, number>();
  /** The key of each stripe; undefined where it has none. */
  readonly #keys: (LockKey | undefined)[] = [];
  readonly #free: number[] = [];

  constructor(table: JavaScriptTable) {
    this.#table = table;
  }

  pin(key: LockKey): number {
    const bytes = typeof key === 'object' ? copyOfBytes(key) : undefined;
    const stripes = bytes === undefined ? this.#stripes : this.#stripesOfBytes;
    const name = bytes === undefined ? (key as string | number) : textOf(bytes);
    const known = stripes.get(name);
    if (known !== undefined) return known | PINNED_AGAIN;
    const free = this.#free;
    const stripe = free.length > 0 ? free[free.length - 1]! : this.#keys.length;
    if (stripe === this.#table.stripes) return NO_STRIPE;
    stripes.set(name, stripe);
    // From here on nothing fails.
    this.#keys[stripe] = bytes ?? key;
    if (free.length > 0) free.length--;
    return stripe;
  }

  unpin(stripes: Int32Array, count: number): number {
    const pinned = new Set(stripes.subarray(0, count).filter((stripe) => this.#keys[stripe] !== undefined));
    const used = this.#table.used(pinned);
    const list = [...used];
    // First, as a `vm` timeout may end the loop: what stays pinned then is in no list, and what is not must be in none.
    stripes.fill(NO_STRIPE, 0, count);
    stripes.set(list);
    for (const stripe of pinned) if (!used.has(stripe)) this.#unpin(stripe);
    return list.length;
  }

  inUse(): number {
    return this.#table.held();
  }

  counts(key: LockKey): StripeCounts {
    const stripe =
      typeof key === 'object' ? this.#stripesOfBytes.get(textOf(copyOfBytes(key))) : this.#stripes.get(key);
    return stripe === undefined ? NOT_USED : this.#table.counts(stripe);
  }

  inspect(): KeyState[] {
    return this.#table.inspect().map(({ stripe, mode, holders, waiters }) => {
      const key = this.#keys[stripe]!;
      return { key: typeof key === 'object' ? copyOfBytes(key) : key, mode, holders, waiters };
    });
  }

  /** No stripe from here on was ever used. */
  get end(): number {
    return this.#keys.length;
  }

  #unpin(stripe: number): void {
    const key = this.#keys[stripe]!;
    if (typeof key === 'object') this.#stripesOfBytes.delete(textOf(key));
    else this.#stripes.delete(key);
    this.#keys[stripe] = undefined;
    this.#free.push(stripe);
  }
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}
