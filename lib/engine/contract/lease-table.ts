/** The state of a lease, as `inspect()` shows it. */
export interface LeaseInfo {
  owner: string;
  token: bigint;
  /** Milliseconds until the lease expires. */
  remaining: number;
  /** Absent if the lease has no `info` text. */
  info?: string;
}

/** The state of a lease, with its key. */
export interface ListedLeaseInfo extends LeaseInfo {
  key: string;
}

/** A grant in shared mode. */
export interface SharedLeaseGrant {
  /** The name of the group, which is the owner of the key. */
  group: string;
  /** The group's token. Negative as for `tryAcquire`, which holds for all readers of the group. */
  token: bigint;
}

/**
 * One thread's view of a table of leases on exact keys. No call blocks. Times are in milliseconds. `at` is
 * the current time on the caller's clock, or NaN for the table's own clock.
 */
export interface LeaseTable {
  /** Identifies the table in a handle. */
  readonly number: number;
  /** The number of entries, including entries of free keys that are not removed yet. */
  readonly size: number;
  /**
   * Returns a fencing token if the lease is granted. Otherwise returns a delay in milliseconds: the caller
   * retries after this delay, or earlier if a callback of {@link watch} is called. For a few milliseconds
   * after a release, only the thread that has watched the key the longest can acquire it. `info`: a text that
   * is stored with the lease; empty for none.
   *
   * The token is negative if the key's last lease ended without a release. If the owner already held the key,
   * the new token has the sign of the owner's last token, and the lease does not become shorter.
   */
  tryAcquire(key: string, owner: string, ttl: number, at: number, info: string): bigint | number;
  /**
   * Extends the lease to `ttl` from now; never shortens it. If `info` is given, it replaces the stored text;
   * a group ignores it. Returns false if the owner does not hold the key.
   */
  renew(key: string, owner: string, ttl: number, at: number, info?: string): boolean;
  /**
   * Ends the owner's lease, which frees the key. Notifies all watches of the key (see {@link watch}). With a
   * token, ends only the lease that was granted with that token. Returns false if the owner does not hold that
   * lease.
   */
  end(key: string, owner: string, at: number, token?: bigint): boolean;
  /**
   * Ends the owner's lease with this token, but the key stays held for `time` more milliseconds. Until then,
   * its owner is `keptOwner`, and its token stays the same. Notifies all watches of the key. Returns true if the
   * owner held this lease. Also returns true, without any change, if an earlier call has ended this lease in
   * this way and the key is still kept.
   */
  keep(key: string, owner: string, token: bigint, keptOwner: string, time: number, at: number): boolean;
  /**
   * Frees the key of a grant that its holder did not release. The key's next token is negative if this
   * grant's token was negative or if the grant was used. Calls the callbacks of {@link watch}. Returns false
   * if the owner does not hold the grant.
   */
  takeBack(key: string, owner: string, token: bigint, wasUsed: boolean, at: number): boolean;
  /**
   * Grants the key in shared mode, or returns a delay as `tryAcquire` does. The first reader of a free key
   * forms a group, which gets the name `reader:token` and owns the key. A reader that joins never shortens the
   * group's lease. While readers are put off, only readers of the group are granted the key.
   */
  join(key: string, reader: string, ttl: number, at: number): SharedLeaseGrant | number;
  /**
   * Removes the reader from the group that holds the key. The last reader to leave frees the key, and calls
   * the callbacks of {@link watch}. The result is `left` if other readers hold the key, and undefined if the
   * reader is not in the group.
   */
  leave(key: string, reader: string, at: number): 'left' | 'freed' | undefined;
  /**
   * Refuses new readers for `time` milliseconds, or longer if they are already put off for longer. This
   * outlasts the last {@link leave}, but not a grant of {@link tryAcquire}. Returns false if no group holds the
   * key.
   */
  putOffReaders(key: string, time: number, at: number): boolean;
  inspect(key: string, at: number): LeaseInfo | undefined;
  /**
   * Lists the held leases whose keys start with `prefix`, in the order of `compareKeys`, up to `most` leases.
   */
  list(prefix: string, most: number, at: number): ListedLeaseInfo[];
  /**
   * Calls `freed` on this thread each time any thread has released the key or shortened the key's lease.
   * `freed` is never called from within a method of this table. The watch does not keep the event loop alive.
   */
  watch(key: string, freed: () => void): LeaseWatch;
}

export interface LeaseWatch {
  /** Ends the watch. Its callback is not called again. */
  end(): void;
}

/**
 * One thread's view of a fencing gate. For each key, the gate remembers the highest token that it has
 * admitted.
 */
export interface GateTable {
  readonly number: number;
  readonly capacity: number;
  /** The number of keys that the gate remembers. */
  readonly size: number;
  /**
   * Returns undefined if the token is admitted. Otherwise returns the higher token that caused the refusal.
   */
  admit(key: string, token: bigint): bigint | undefined;
}

/**
 * Creates and opens lease tables and gates. All threads whose engines have the same {@link id} share the
 * tables and gates.
 */
export interface LeaseEngine {
  readonly name: 'native' | 'javascript';
  /** A handle can be opened on this engine only if it contains this id. */
  readonly id: readonly [number, number];
  /**
   * Opens the table with this number, or creates a table if no number is given. `ownClock`: whether the table
   * reads its own clock. Throws a LockError (ERR_LOCK_ENGINE) for an unknown number.
   */
  openTable(ownClock: boolean, number?: number): LeaseTable;
  openGate(capacity: number, number?: number): GateTable;
  /**
   * Returns the time in milliseconds, on a clock that all threads of the process share. The clock also counts
   * while the machine is suspended, if the platform has such a clock. Undefined if this engine has no clock.
   */
  readonly elapsed: (() => number) | undefined;
}
