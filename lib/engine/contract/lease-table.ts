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
 * the caller's clock, or NaN for the table's own, which is monotonic.
 */
export interface LeaseTable {
  /** Names it in a handle. */
  readonly number: number;
  /** The number of entries, including expired ones that are not swept yet. */
  readonly size: number;
  /** The last grant, by its number in this table, which costs less than a token. */
  readonly granted: number;
  /** When it was made: on the caller's clock or, if `at` was NaN, on that of `performance.now()`. */
  readonly grantedAt: number;
  /** A hint that finds it quickly, for {@link releaseGranted}. */
  readonly grantedHint: number;
  /** The token of what was {@link granted}. */
  tokenOf(granted: number): bigint;
  /** True if granted. Without an owner, the holder has no name of its own, and {@link anonymousOwner} names it. */
  tryAcquire(key: string, owner: string | undefined, ttl: number, at: number): boolean;
  /**
   * The same for a thread that waits for the key, or is about to: the thread that has waited longest goes first. 0 if
   * granted, else the milliseconds after which to try again, even if {@link watch} has not called.
   */
  takeTurn(key: string, owner: string | undefined, ttl: number, at: number): number;
  /** Can shorten it, too, and then calls the {@link watch}es of the key. */
  renew(key: string, owner: string, ttl: number, at: number): boolean;
  /** Keeps a text with what the owner holds, until that ends or is granted again. Empty for none. False if it holds nothing. */
  setInfo(key: string, owner: string, info: string, at: number): boolean;
  /**
   * From now on the table extends what the owner holds by itself, a `ttl` at a time, while this thread lives, until
   * `most` milliseconds after the grant. To be called right after the grant, with the same ttl. A new grant ends it, and
   * so does a ttl of 0. False if the owner does not hold the key.
   */
  keep(key: string, owner: string, ttl: number, most: number, at: number): boolean;
  release(key: string, owner: string, at: number): boolean;
  /** Releases what was {@link granted}. */
  releaseGranted(key: string, granted: number, hint: number, at: number): boolean;
  inspect(key: string, at: number): LeaseInfo | undefined;
  /**
   * Calls `freed` on this thread whenever any thread has released the key or shortened its lease, and never from within
   * another call. Does not keep the event loop alive.
   */
  watch(key: string, freed: () => void): LeaseWatch;
}

/** The name of a holder that gave none. `native/core/lease_table.cc` makes the same name. */
export function anonymousOwner(token: bigint): string {
  return `lease ${token}`;
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
