import { quotedKeys, LockError, LockTimeoutError } from '../../common/errors.js';
import type { FencingToken } from './lease-store.js';

/**
 * A lease is not held any more, or may not be. Somebody else may have what it guarded. `cause`: the error of the last
 * renewal, if that is the reason.
 */
export class LeaseLostError extends LockError {
  /** The key of the lease. */
  readonly key: string;
  /** The token of the lease. */
  readonly token: FencingToken;

  constructor(key: string, token: FencingToken, why: string, cause?: unknown) {
    super(
      'ERR_LEASE_LOST',
      `the lease of ${quotedKeys([key])} (token ${token}) is not held: ${why}`,
      cause === undefined ? undefined : { cause },
    );
    this.key = key;
    this.token = token;
  }

  static {
    this.prototype.name = 'LeaseLostError';
  }
}

/** The store failed. `cause` is its error. Nothing was granted. A lease that was held is held until it expires. */
export class LeaseStoreError extends LockError {
  constructor(message: string, cause?: unknown) {
    super('ERR_LEASE_STORE', message, cause === undefined ? undefined : { cause });
  }

  static {
    this.prototype.name = 'LeaseStoreError';
  }
}

/** A write came with a lower token than an earlier one: its sender has lost the lease, and may not know it yet. */
export class StaleTokenError extends LockError {
  /** The key of the write. */
  readonly key: string;
  /** The token that was refused. */
  readonly token: FencingToken;
  /** The highest token that was admitted before; for a key that the gate has forgotten, the highest that may have been. */
  readonly newest: FencingToken;

  constructor(key: string, token: FencingToken, newest: FencingToken) {
    super(
      'ERR_STALE_TOKEN',
      `token ${token} for ${quotedKeys([key])} is stale: ${newest} was admitted before`,
    );
    this.key = key;
    this.token = token;
    this.newest = newest;
  }

  static {
    this.prototype.name = 'StaleTokenError';
  }
}

/**
 * Whether no repetition can help: the store has failed with a LockError of another code than ERR_LEASE_STORE. Callers get
 * such an error as it is, and at once. A time-out of a lock that the store itself uses is not meant.
 */
export function isPermanent(error: unknown): error is LockError {
  return (
    error instanceof LockError && !(error instanceof LeaseStoreError) && !(error instanceof LockTimeoutError)
  );
}

/** The error for a server that does not let its user do what leases need, and will not until somebody changes that. */
export function storeDenied(server: string, cause: unknown): LockError {
  const message = `${server} does not allow what leases need: ${messageOf(cause)}`;
  return new LockError('ERR_LEASE_STORE_DENIED', message, { cause });
}

/** The error for an operation of a store, on a key or several, that failed with `cause`; that itself if it is permanent. */
export function storeFailure(operation: string, keys: string | readonly string[], cause: unknown): LockError {
  if (isPermanent(cause)) return cause;
  const names = quotedKeys(typeof keys === 'string' ? [keys] : keys);
  return new LeaseStoreError(`the lease store failed to ${operation} ${names}: ${messageOf(cause)}`, cause);
}

/**
 * The message of a thrown value. The message of an attempt to connect to several addresses is empty, but its error has a
 * code. The message of `mariadb` includes the whole statement, and `sqlMessage` does not.
 */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code, sqlMessage } = error as { code?: unknown; sqlMessage?: unknown };
  if (typeof sqlMessage === 'string' && sqlMessage !== '') return sqlMessage;
  return error.message || (typeof code === 'string' ? code : error.name);
}

/** The error for an acquisition that was not granted in time. `cause`: the last error of the store. */
export function leaseTimeout(
  keys: readonly string[],
  timeout: number,
  reason: string,
  cause?: unknown,
): LockTimeoutError {
  const message = `could not acquire the lease of ${quotedKeys(keys)} within ${timeout} ms: ${reason}`;
  return new LockTimeoutError(message, keys, timeout, -1, [], cause === undefined ? undefined : { cause });
}

/** The error for reading the one key, or token, of a lease that has none or several. */
export function noSingleKey(property: 'key' | 'token', keys: readonly string[]): LockError {
  const held = keys.length === 0 ? 'no keys' : quotedKeys(keys);
  return new LockError(
    'ERR_LEASE_KEYS',
    `a lease of ${held} has no single ${property}: read its ${property}s`,
  );
}

/** The error for operations of a closed manager. */
export function managerClosed(): LockError {
  return new LockError('ERR_LEASE_MANAGER_CLOSED', 'the LeaseManager was closed');
}

/** The error for renewal in the background over a store that only the holder's thread can use. */
export function cannotReopen(): LockError {
  return new LockError(
    'ERR_LEASE_BACKGROUND',
    'options.renew.background needs a store that another thread can open again: a MemoryLeaseStore, sqliteLeaseStore ' +
      'with a path, redisLeaseStore with a url or a clientModule, postgresLeaseStore, mysqlLeaseStore or ' +
      'mongodbLeaseStore with a clientModule, etcdLeaseStore, or a store of your own with a source. Neither ' +
      'the manager nor a store in memory may have a separate clock',
  );
}
