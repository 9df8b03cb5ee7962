/** The state of a lease, as `inspect()` shows it. */
export interface LeaseInfo {
  owner: string;
  token: bigint;
  /** Milliseconds. */
  remaining: number;
  /** Absent if the lease has no info. */
  info?: string;
}

/** The state of a lease, with its key. */
export interface ListedLeaseInfo extends LeaseInfo {
  key: string;
}

/**
 * One thread's view of a table of leases on exact keys. No call waits. Times are milliseconds; `at` is a time on the
 * caller's clock, or NaN for the table's own clock.
 */
export interface LeaseTable {
  /** Identifies the table in a handle. */
  readonly number: number;
  /** The number of entries, including expired ones that are not swept yet. */
  readonly size: number;
  /**
   * Returns a token if granted. Otherwise returns the milliseconds until a retry makes sense even without a call of
   * {@link watch}. If threads watch the key, a release favours the one that has waited longest. `info` is stored with
   * the lease; empty for none.
   */
  tryAcquire(key: string, owner: string, ttl: number, at: number, info: string): bigint | number;
  /** Never shortens the lease. `info` replaces the stored one if given. False if the owner does not hold the key. */
  renew(key: string, owner: string, ttl: number, at: number, info?: string): boolean;
  /**
   * Ends the grant, of which `keepFor` leaves the key unavailable for this time; 0 frees it. Calls the {@link watch}es of
   * the key. With a token, ends only the grant with that token. False if the owner does not hold that grant.
   */
  end(key: string, owner: string, keepFor: number, at: number, token?: bigint): boolean;
  inspect(key: string, at: number): LeaseInfo | undefined;
  /** The first `most` held leases whose keys start with `prefix`, in the order of `compareKeys`. */
  list(prefix: string, most: number, at: number): ListedLeaseInfo[];
  /**
   * Calls `freed` on this thread when any thread has released the key or shortened its lease, but never from within
   * another call. Does not keep the event loop alive.
   */
  watch(key: string, freed: () => void): LeaseWatch;
}

export interface LeaseWatch {
  /** Stops the calls. */
  end(): void;
}

/** One thread's view of the highest fencing tokens. */
export interface GateTable {
  readonly number: number;
  readonly capacity: number;
  /** The number of remembered keys. */
  readonly size: number;
  /** Undefined if admitted. Otherwise returns the higher token that caused the refusal. */
  admit(key: string, token: bigint): bigint | undefined;
}

/** Creates and opens lease tables and gates, for all threads with the same {@link id}. */
export interface LeaseEngine {
  readonly name: 'native' | 'javascript';
  /** The id that a handle must carry to be opened here. */
  readonly id: readonly [number, number];
  /** Creates a table if no number is given. Throws a LockError (ERR_LOCK_ENGINE) for an unknown number. */
  openTable(ownClock: boolean, number?: number): LeaseTable;
  openGate(capacity: number, number?: number): GateTable;
  /**
   * Milliseconds on a clock that all threads of the process share. It keeps counting while the machine is suspended, if
   * the platform has such a clock. Undefined if this engine has no clock.
   */
  readonly elapsed: (() => number) | undefined;
}
