/** The row that stores the store's clock. Times are in milliseconds. */
export interface ClockRow {
  /** The time of the store's clock when the row was written. */
  readonly time: bigint;
  /** The time of the wall clock when the row was written. */
  readonly wall: bigint;
}

/**
 * A reading of the wall clock, between two readings of a monotonic clock, in milliseconds. Without a
 * monotonic clock, `before` and `after` are infinite.
 */
export interface Reading {
  readonly before: number;
  readonly wall: bigint;
  readonly after: number;
}

/**
 * If the times measured by the wall clock and the monotonic clock differ by more than this many milliseconds,
 * the store assumes that the wall clock was set. If they differ by less, the store's time follows the wall
 * clock, so that rounding errors of single readings do not accumulate.
 */
const TOLERANCE = 20;

/**
 * Computes the store's time: the time in the row, plus the time that has passed since the row was written.
 * The wall clock measures the time that has passed. The process's monotonic clock limits the result:
 *
 * Let m be the monotonic time since this process last read the row. If the row is still the same, exactly m
 * has passed since that reading. If the row is new, it was written at most m ago.
 *
 * So the store's time does not stop when the wall clock jumps, as long as a process polls. Nor does the jump
 * make leases expire early in a process that read the row before the jump.
 */
export class StoreClock {
  #seen: ClockRow | undefined;
  /**
   * The milliseconds from the writing of the row to the last reading. `#before` and `#after` are the
   * monotonic times of that reading.
   */
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
