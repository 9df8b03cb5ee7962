/** What `inspect()` tells of a lease. */
export interface LeaseInfo {
  owner: string;
  token: bigint;
  /** Milliseconds. */
  remaining: number;
}

/**
 * One thread's view of a table of leases on exact keys. Every call decides at once. Times are milliseconds; `at` is
 * the caller's clock, or NaN for the table's own, which is monotonic.
 */
export interface LeaseTable {
  /** Names it in a handle. */
  readonly number: number;
  /** Entries, expired ones that are not swept yet included. */
  readonly size: number;
  /** What names the last grant, in this table: a number, which costs less than a token. */
  readonly granted: number;
  /** When it was made: on the caller's clock or, where that was NaN, on `performance.now()`'s. */
  readonly grantedAt: number;
  /** What finds it quickly; for {@link releaseGranted}. */
  readonly grantedHint: number;
  /** Of what was {@link granted}. */
  tokenOf(granted: number): bigint;
  /** True if granted. Without an owner, to a holder without a name of its own, whom {@link anonymousOwner} names. */
  tryAcquire(key: string, owner: string | undefined, ttl: number, at: number): boolean;
  /**
   * The same for a thread that waits for the key, or would: lets the thread go first that has waited longest.
   * 0 if granted, else the milliseconds after which to try again even if nobody calls.
   */
  takeTurn(key: string, owner: string | undefined, ttl: number, at: number): number;
  renew(key: string, owner: string, ttl: number, at: number): boolean;
  release(key: string, owner: string, at: number): boolean;
  /** What was {@link granted}. */
  releaseGranted(key: string, granted: number, hint: number, at: number): boolean;
  inspect(key: string, at: number): LeaseInfo | undefined;
  /**
   * Calls `freed` on this thread, and never from within another call, whenever the key has been released, by whatever
   * thread. One for a key at a time. Does not keep the event loop alive.
   */
  watch(key: string, freed: () => void): LeaseWatch;
}

/** The name of a holder that gave none. `native/core/lease_table.cc` makes the same. */
export function anonymousOwner(token: bigint): string {
  return `lease ${token}`;
}

export interface LeaseWatch {
  /** No more calls. */
  end(): void;
}

/** One thread's view of the highest fencing tokens. */
export interface GateTable {
  readonly number: number;
  readonly capacity: number;
  /** Keys that are remembered. */
  readonly size: number;
  /** Undefined if admitted, else the higher token on account of which it is refused. */
  admit(key: string, token: bigint): bigint | undefined;
}

/** Makes and opens both, for all threads that have the same {@link id}. */
export interface LeaseEngine {
  readonly name: 'native' | 'javascript';
  /** What a handle must carry to be opened here. */
  readonly id: readonly [number, number];
  /** Without a number, a new one. Throws a LockError, code ERR_LOCK_ENGINE, for a number that was not given out. */
  openTable(ownClock: boolean, number?: number): LeaseTable;
  openGate(capacity: number, number?: number): GateTable;
}
