import { copyOfBytes } from '../../common/bytes.js';
import type { KeyState, LockKey } from '../../common/types.js';
import type { StripeCounts } from '../contract/engine.js';
import { IDLE_ENDED, NO_STRIPE, PINNED_AGAIN, type ExactKeys } from '../contract/exact-keys.js';
import type { JavaScriptTable } from './table.js';

const NOT_USED: StripeCounts = { word: 0, waiting: 0 };

/** The exact keys of a table. Only one thread uses the table. */
export class JavaScriptExactKeys implements ExactKeys {
  pinned: object | undefined = undefined;
  readonly #table: JavaScriptTable;
  readonly #stripes = new Map<string | number, number>();
  /** The stripes of byte keys. In the map, such a key is a string with one character for each byte. */
  readonly #stripesOfBytes = new Map<string, number>();
  /** The key of each stripe; undefined for a free stripe. */
  readonly #keys: (LockKey | undefined)[] = [];
  readonly #free: number[] = [];

  constructor(table: JavaScriptTable) {
    this.#table = table;
  }

  pin(key: LockKey, idle: number): number {
    const bytes = typeof key === 'object' ? copyOfBytes(key) : undefined;
    const stripes = bytes === undefined ? this.#stripes : this.#stripesOfBytes;
    const name = bytes === undefined ? (key as string | number) : textOf(bytes);
    const known = stripes.get(name);
    if (known !== undefined) return known | PINNED_AGAIN;
    const ended = idle !== NO_STRIPE && this.#end(idle, this.#table.wanted()) ? IDLE_ENDED : 0;
    const free = this.#free;
    const stripe = free.length > 0 ? free[free.length - 1]! : this.#keys.length;
    if (stripe === this.#table.stripes) return NO_STRIPE;
    stripes.set(name, stripe);
    // No line below can throw.
    this.#keys[stripe] = bytes ?? key;
    if (free.length > 0) free.length--;
    return stripe | ended;
  }

  unpin(stripes: Int32Array, count: number): number {
    const wanted = this.#table.wanted();
    const used = new Set<number>();
    for (let i = 0; i < count; i++) {
      const stripe = stripes[i]!;
      // The stripe is removed from the list before it is unpinned, because a `vm` timeout may end the loop
      // here. So a pinned stripe may be missing from the list, but the list never contains an unpinned
      // stripe.
      stripes[i] = NO_STRIPE;
      if (!this.#end(stripe, wanted)) used.add(stripe);
    }
    let kept = 0;
    for (const stripe of used) stripes[kept++] = stripe;
    return kept;
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

  /** The first stripe that was never used. All stripes above it were never used either. */
  get end(): number {
    return this.#keys.length;
  }

  /**
   * Unpins a stripe unless it is in use. Returns true if the stripe is now unpinned. An earlier call that a
   * `vm` timeout ended may already have unpinned the stripe.
   */
  #end(stripe: number, wanted: ReadonlySet<number>): boolean {
    const key = this.#keys[stripe];
    if (key === undefined) return true;
    if (wanted.has(stripe) || this.#table.lines.load(stripe) !== 0) return false;
    if (typeof key === 'object') this.#stripesOfBytes.delete(textOf(key));
    else this.#stripes.delete(key);
    this.#keys[stripe] = undefined;
    this.#free.push(stripe);
    return true;
  }
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}
