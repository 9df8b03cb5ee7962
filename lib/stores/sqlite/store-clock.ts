/** The row of the store's clock, in milliseconds. */
export interface ClockRow {
  /** The store's time when the row was written. */
  readonly time: bigint;
  /** The wall clock at that time. */
  readonly wall: bigint;
}

/** The wall clock, and a monotonic clock read before and after it, in milliseconds; infinite if there is none. */
export interface Reading {
  readonly before: number;
  readonly wall: bigint;
  readonly after: number;
}

/**
 * Milliseconds by which the two clocks may differ before one of them counts as set. The wall clock is read in whole
 * milliseconds, and followed within this tolerance, so that rounding errors do not add up.
 */
const TOLERANCE = 20;

/**
 * The store's time: that of the row, plus what has passed since it was written. The wall clock says how much has
 * passed, within limits that this process knows from its monotonic clock. If the row is the one that it saw last,
 * exactly the monotonic time since that look has passed. If it is another row, at most that time has passed since it
 * was written. So a jump of the wall clock neither stops the store's time while somebody looks at it, nor ends leases
 * early for processes that have looked before.
 */
export class StoreClock {
  #seen: ClockRow | undefined;
  /** At the last look: how much time had passed since the row was written, and the two moments between which the look was. */
  #passed = 0;
  #before = -Infinity;
  #after = Infinity;

  /** `row`: read just before the reading, or before it within the same transaction. */
  now(row: ClockRow | undefined, reading: Reading): bigint {
    const { before, wall, after } = reading;
    if (row === undefined) return wall;
    const same = this.#seen?.time === row.time && this.#seen.wall === row.wall;
    const least = same ? this.#passed + before - this.#after : 0;
    const most = (same ? this.#passed : 0) + after - this.#before;
    let passed = Math.max(Number(wall - row.wall), 0);
    if (passed < least - TOLERANCE) passed = least;
    else if (passed > most + TOLERANCE) passed = most;
    this.#looked(row, passed, reading);
    return row.time + BigInt(Math.floor(passed));
  }

  /** This process has written the row, from this reading. */
  wrote(row: ClockRow, reading: Reading): void {
    this.#looked(row, 0, reading);
  }

  #looked(row: ClockRow, passed: number, { before, after }: Reading): void {
    this.#seen = row;
    this.#passed = passed;
    this.#before = before;
    this.#after = after;
  }
}
