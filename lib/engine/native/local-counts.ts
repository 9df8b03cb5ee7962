import { METRIC_CELLS } from '../contract/layout.js';
import type { Addon } from './addon.js';

/** So many acquisitions that had to wait are counted here before the table's cell gets them. */
const MOST_CONTENDED = 2 ** 20;

/** What this needs of the table. */
export interface CountedTable {
  /** The addon's number for it. */
  readonly number: number;
  readonly stripes: number;
  readonly cells: BigInt64Array;
}

/** What hand-overs need of it. */
export interface LocalTable extends CountedTable {
  /** The lock's own words. */
  readonly words: Int32Array;
}

/**
 * Counts what waits in this thread's JavaScript where the addon reads it for `stats()` and `inspect()` in any thread
 * (`openLocals` in `native/core/membership.h`). Only this thread writes there, and so needs no atomics. If the thread ends,
 * the counts end with it.
 */
export class LocalCounts {
  readonly #table: CountedTable;
  readonly #addon: Addon;
  #counts: Int32Array | undefined = undefined;

  constructor(table: CountedTable, addon: Addon) {
    this.#table = table;
    this.#addon = addon;
  }

  /** A count for each stripe, then that of all, then that of all that ever waited. There is room for one more. */
  ready(): Int32Array {
    const counts = this.#counts ?? this.#open();
    if (counts[this.#table.stripes + 1]! >= MOST_CONTENDED) this.#flush(counts);
    return counts;
  }

  #open(): Int32Array {
    const { number, stripes } = this.#table;
    // Shared memory, for the same reason as in `NativeTable.openShares`.
    const memory = new SharedArrayBuffer((stripes + 2) * Int32Array.BYTES_PER_ELEMENT);
    return (this.#counts = this.#addon.openLocals(number, new Int32Array(memory)));
  }

  #flush(counts: Int32Array): void {
    const last = this.#table.stripes + 1;
    Atomics.add(this.#table.cells, METRIC_CELLS.contended, BigInt(counts[last]!));
    counts[last] = 0;
  }
}
