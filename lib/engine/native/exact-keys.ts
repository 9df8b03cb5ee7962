import type { KeyState, LockKey } from '../../common/types.js';
import type { ExactKeys } from '../contract/exact-keys.js';
import type { Addon } from './addon.js';
import { toStripeState, type LocalWait } from './stripe-state.js';

/** The exact keys of a table, which is in C++ (`native/core/key_table.h`). */
export class NativeExactKeys implements ExactKeys {
  readonly #addon: Addon;
  readonly #table: number;
  readonly #limit: number;
  readonly #waiting: (stripe: number) => readonly LocalWait[];

  /** `waiting`: what waits in this thread's JavaScript. */
  constructor(addon: Addon, table: number, limit: number, waiting: (stripe: number) => readonly LocalWait[]) {
    this.#addon = addon;
    this.#table = table;
    this.#limit = limit;
    this.#waiting = waiting;
  }

  pin(key: LockKey): number {
    return this.#addon.pin(this.#table, key);
  }

  unpin(stripes: Int32Array, count: number): number {
    return this.#addon.unpin(this.#table, stripes, count);
  }

  inUse(): number {
    return this.#addon.inUse(this.#table);
  }

  inspect(): KeyState[] {
    return this.#addon.inspect(this.#table).map((entry) => {
      const { mode, holders, waiters } = toStripeState(entry, this.#limit, this.#waiting);
      return { key: entry.key!, mode, holders, waiters };
    });
  }
}
