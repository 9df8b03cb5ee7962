import { quotedKeys, LockError, LockTimeoutError } from '../../common/errors.js';
import type { FencingToken } from './lease-store.js';

/**
 * Reports that a lease is no longer held, or may no longer be held. Another owner may now use the resource
 * that it protected. `cause`: the error of the last renewal, if that is why the lease was lost.
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

/**
 * Reports that the store failed. `cause` is the store's error. No lease was granted. A lease that was held
 * stays held until it expires.
 */
export class LeaseStoreError extends LockError {
  constructor(message: string, cause?: unknown) {
    super('ERR_LEASE_STORE', message, cause === undefined ? undefined : { cause });
  }

  static {
    this.prototype.name = 'LeaseStoreError';
  }
}

/**
 * Reports that a write was refused because an earlier write had a higher token. The sender has lost its
 * lease, and may not know that yet.
 */
export class StaleTokenError extends LockError {
  /** The key of the write. */
  readonly key: string;
  /** The token that was refused. */
  readonly token: FencingToken;
  /**
   * The highest token that was admitted before. For a key that the gate has forgotten, the highest token that
   * may have been admitted.
   */
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
 * Whether an error is permanent, so that repeating the operation cannot help. An error is permanent if it is
 * a LockError, but not a LeaseStoreError or a LockTimeoutError. Callers get a permanent error unchanged and
 * at once. A LockTimeoutError comes from a lock that the store itself uses, so a repetition can succeed.
 */
export function isPermanent(error: unknown): error is LockError {
  return (
    error instanceof LockError && !(error instanceof LeaseStoreError) && !(error instanceof LockTimeoutError)
  );
}

/**
 * The error for a server that refuses an operation that leases need. It is permanent until an administrator
 * allows the operation.
 */
export function storeDenied(server: string, cause: unknown): LockError {
  const message = `${server} does not allow what leases need: ${messageOf(cause)}`;
  return new LockError('ERR_LEASE_STORE_DENIED', message, { cause });
}

/**
 * The error for a failed operation of a store on one or more keys. If `cause` is permanent, `cause` itself is
 * returned.
 */
export function storeFailure(operation: string, keys: string | readonly string[], cause: unknown): LockError {
  if (isPermanent(cause)) return cause;
  const names = quotedKeys(typeof keys === 'string' ? [keys] : keys);
  return new LeaseStoreError(`the lease store failed to ${operation} ${names}: ${messageOf(cause)}`, cause);
}

/**
 * The message of a thrown value. If Node cannot connect to any of several addresses, the error's message is
 * empty, so its code is used. The message of a `mariadb` error includes the whole statement, so its
 * `sqlMessage` is used.
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

/** The error for reading `key` or `token` of a lease that does not have exactly one key. */
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

/** The error for background renewal over a store that no other thread can open. */
export function cannotReopen(): LockError {
  return new LockError(
    'ERR_LEASE_BACKGROUND',
    'options.renew.background needs a store that another thread can open again: a MemoryLeaseStore, sqliteLeaseStore ' +
      'with a path, redisLeaseStore with a url or a clientModule, postgresLeaseStore, mysqlLeaseStore or ' +
      'mongodbLeaseStore with a clientModule, etcdLeaseStore, or a store of your own with a source. Neither ' +
      'the manager nor a store in memory may have a separate clock',
  );
}
