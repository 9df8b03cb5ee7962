import type { Addon } from './addon.js';

// Where the addon's `LeaseExchange` has what; `native/node/leases.h` says what it is.
const TABLE = 0;
const AT = 1;
const TTL = 2;
const OFFSET = 3;
export const SINCE = 4;
export const RETRY_AFTER = 5;
export const GRANT = 6;
/** Of {@link LeaseExchange.integers}. */
export const HINT = 14;
export const STATUS = 15;
const BYTES = 64;

/** What {@link STATUS} says. */
export const NO = 0;
export const DONE_AND_READY = 2;
export const UNKNOWN = 3;

/** How often clocks are compared. */
const COMPARISONS = 16;

/** Memory for the numbers of this thread's calls of leases. What a call has left there stays until the next. */
export class LeaseExchange {
  readonly numbers: Float64Array;
  readonly integers: Int32Array;

  constructor() {
    const memory = new SharedArrayBuffer(BYTES);
    this.numbers = new Float64Array(memory);
    this.integers = new Int32Array(memory);
  }

  /**
   * The addon's clock and `performance.now()` both read the platform's monotonic one, but count from different
   * moments. Each comparison finds less than the true difference, by the time between the readings; the most is
   * closest, and not too much: what the addon says is never later than it was.
   */
  open(addon: Addon): void {
    let offset = -Infinity;
    for (let i = 0; i < COMPARISONS; i++) offset = Math.max(offset, performance.now() - addon.leaseNow());
    this.numbers[OFFSET] = offset;
    addon.leaseExchange(this.numbers);
  }

  /** `table`: the addon's number for it. */
  ask(table: number, at: number, ttl: number): void {
    const { numbers } = this;
    numbers[TABLE] = table;
    numbers[AT] = at;
    numbers[TTL] = ttl;
  }
}
