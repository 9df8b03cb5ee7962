import { offsetOf } from '../../common/clock-offset.js';
import type { Addon } from './addon.js';
import { EXCHANGE_AT, EXCHANGE_BYTES, EXCHANGE_OFFSET, EXCHANGE_TABLE, EXCHANGE_TTL } from './protocol.js';

/**
 * Memory for the numbers of this thread's calls for leases; `native/node/leases.h` says what each means. The results of
 * a call stay there until the next call.
 */
export class LeaseExchange {
  readonly numbers: Float64Array;
  /** The same memory, in units of 32-bit integers. */
  readonly integers: Int32Array;

  constructor() {
    const memory = new SharedArrayBuffer(EXCHANGE_BYTES);
    this.numbers = new Float64Array(memory);
    this.integers = new Int32Array(memory);
  }

  /**
   * Gives the memory to the addon, with the difference of two clocks. The addon's clock and `performance.now()` both
   * read the platform's monotonic one, but count from different moments.
   */
  open(addon: Addon): void {
    this.numbers[EXCHANGE_OFFSET] = offsetOf(() => addon.leaseNow());
    addon.leaseExchange(this.numbers);
  }

  /** Sets what the next call is about. `table` is the addon's number for it; times are milliseconds. */
  ask(table: number, at: number, ttl: number): void {
    const { numbers } = this;
    numbers[EXCHANGE_TABLE] = table;
    numbers[EXCHANGE_AT] = at;
    numbers[EXCHANGE_TTL] = ttl;
  }
}
