/** The row of the store's clock. Times are in milliseconds. */
export interface ClockRow {
  /** The store's time when the row was written. */
  readonly time: bigint;
  /** The wall clock when the row was written. */
  readonly wall: bigint;
}

/**
 * A reading of the wall clock, between two readings of a monotonic clock, in milliseconds. Without a monotonic clock,
 * `before` and `after` are infinite.
 */
export interface Reading {
  readonly before: number;
  readonly wall: bigint;
  readonly after: number;
}

/**
 * Milliseconds by which the two clocks may differ before a jump is assumed. The wall clock is read in whole
 * milliseconds and followed within this tolerance, so rounding errors do not accumulate.
 */
const TOLERANCE = 20;

/**
 * The store's time is the time in the row, plus the time that has passed since the row was written. The wall clock
 * measures the time that has passed. The process's monotonic clock limits the result:
 *
 * Let m be the monotonic time since this process last read the row. If the row is still the same, the store's time has
 * advanced by exactly m since then. If the row is new, it was written at most m ago.
 *
 * So the store's time does not stop when the wall clock jumps, as long as a process polls. In processes that have read
 * the clock before, the jump does not end leases early either.
 */
export class StoreClock {
  #seen: ClockRow | undefined;
  /** At the last reading: the milliseconds since the row was written, and the two monotonic readings. */
  #passed = 0;
  #before = -Infinity;
  #after = Infinity;

  /** `row` must be read just before the reading, or earlier in the same transaction. */
  now(row: ClockRow | undefined, reading: Reading): bigint {
    const { before, wall, after } = reading;
    if (row === undefined) return wall;
    const same = this.#seen?.time === row.time && this.#seen.wall === row.wall;
    const least = same ? this.#passed + before - this.#after : 0;
    const most = (same ? this.#passed : 0) + after - this.#before;
    let passed = Math.max(Number(wall - row.wall), 0);
    if (passed < least - TOLERANCE) passed = least;
    else if (passed > most + TOLERANCE) passed = most;
    this.#record(row, passed, reading);
    return row.time + BigInt(Math.floor(passed));
  }

  /** Records that this process wrote the row with this reading. */
  wrote(row: ClockRow, reading: Reading): void {
    this.#record(row, 0, reading);
  }

  #record(row: ClockRow, passed: number, { before, after }: Reading): void {
    this.#seen = row;
    this.#passed = passed;
    this.#before = before;
    this.#after = after;
  }
}
