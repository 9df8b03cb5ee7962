/** What `inspect()` tells about a lease. */
export interface LeaseInfo {
  owner: string;
  token: bigint;
  /** Milliseconds. */
  remaining: number;
  /** Absent for none. */
  info?: string;
}

/**
 * One thread's view of a table of leases on exact keys. Every call decides at once. Times are milliseconds; `at` is
 * the caller's clock, or NaN for the table's own.
 */
export interface LeaseTable {
  /** Names it in a handle. */
  readonly number: number;
  /** The number of entries, including expired ones that are not swept yet. */
  readonly size: number;
  /**
   * Its token if granted, else the milliseconds after which to try again, even if {@link watch} has not called. If threads
   * watch the key, the one that has waited longest goes first after a release. `info`: a text that is kept with the lease;
   * empty for none.
   */
  tryAcquire(key: string, owner: string, ttl: number, at: number, info: string): bigint | number;
  /** Shortens nothing. `info`: replaces the text, if it is given. False if the owner does not hold the key. */
  renew(key: string, owner: string, ttl: number, at: number, info?: string): boolean;
  /**
   * Ends the grant that has this token, but leaves the key taken for `ttl`. Calls the {@link watch}es of the key. False if
   * the owner does not hold that grant.
   */
  keep(key: string, owner: string, ttl: number, at: number, token: bigint): boolean;
  /** With a token, releases only the grant that has it. */
  release(key: string, owner: string, at: number, token?: bigint): boolean;
  inspect(key: string, at: number): LeaseInfo | undefined;
  /**
   * Calls `freed` on this thread whenever any thread has released the key or shortened its lease, and never from within
   * another call. Does not keep the event loop alive.
   */
  watch(key: string, freed: () => void): LeaseWatch;
}

export interface LeaseWatch {
  /** Ends the calls. */
  end(): void;
}

/** One thread's view of the highest fencing tokens. */
export interface GateTable {
  readonly number: number;
  readonly capacity: number;
  /** Keys that are remembered. */
  readonly size: number;
  /** Undefined if admitted, else the higher token because of which it is refused. */
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
  /**
   * Milliseconds on a clock that all threads of the process read, and that counts while the machine is suspended if the
   * platform has such a clock. Undefined if this engine has none.
   */
  readonly elapsed: (() => number) | undefined;
}
