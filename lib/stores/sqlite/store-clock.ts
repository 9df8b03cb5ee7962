/** The row of the store's clock, in milliseconds. */
export interface ClockRow {
  /** The store's time when the row was written. */
  readonly time: bigint;
  /** What the wall clock showed then. */
  readonly wall: bigint;
}

/** The wall clock, and a monotonic one read before and after it: milliseconds. Infinite where there is none. */
export interface Reading {
  readonly before: number;
  readonly wall: bigint;
  readonly after: number;
}

/**
 * Milliseconds by which the two clocks may differ without one of them having been set: the wall clock is read in whole
 * ones, and followed where it can be, so that rounding does not add up.
 */
const TOLERANCE = 20;

/**
 * The store's time: that of the row, and what has passed since it was written. That is what the wall clock says, within
 * what this process knows by a monotonic clock: as much more than at its last look as has passed since; and where
 * another row has taken the place of the one that it saw then, not more than that. So a step of the wall clock neither
 * stops the store's time while somebody looks at it, nor ends leases early for those who have looked before.
 */
export class StoreClock {
  #seen: ClockRow | undefined;
  /** At the last look: what had passed since the row was written, and between which moments that was. */
  #passed = 0;
  #before = -Infinity;
  #after = Infinity;

  /** `row`: as it was read just before the reading, or before it within one transaction. */
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

  /** This process has written the row, by that reading. */
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
