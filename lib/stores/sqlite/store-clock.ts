/** The row of the store's clock. Times are in milliseconds. */
export interface ClockRow {
  /** The store's time when the row was written. */
  readonly time: bigint;
  /** The wall clock when the row was written. */
  readonly wall: bigint;
}

/**
 * A reading of the wall clock, between two readings of a monotonic clock. In milliseconds; infinite without a monotonic
 * clock.
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
 * The store's time: the time in the row, plus the time since the row was written. The wall clock measures this time, within
 * bounds from the process's monotonic clock:
 *
 * If the row is the one this process read last, exactly the monotonic time since that reading has passed. If it is a
 * new row, at most that time has passed since it was written.
 *
 * So a jump of the wall clock does not stop the store's time while a process polls. It does not end leases early either
 * for processes that have read the clock before.
 */
export class StoreClock {
  #seen: ClockRow | undefined;
  /** At the last reading: the time since the row was written, and the bounds of the reading. */
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
