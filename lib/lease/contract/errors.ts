import { quotedKeys, LockError, LockTimeoutError } from '../../common/errors.js';
import type { FencingToken } from './lease-store.js';

/**
 * Reports that a lease has ended, or may have ended. Another owner may now use the resource that the lease
 * protected. `cause` is the error of the last renewal if the lease expired because its renewals failed.
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
 * Reports that the store failed. `cause` is the store's error. After a failed acquisition, the caller has no
 * lease. If a renewal or a release fails, the lease ends when its TTL expires, unless a retry succeeds.
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
 * Reports that a gate refused a write, because the gate had already admitted a higher token for the key. The
 * sender of the write has then lost its lease, even if the sender does not know that yet. A gate that has
 * forgotten the key also refuses the write if a higher token may have been admitted before.
 */
export class StaleTokenError extends LockError {
  /** The key of the write. */
  readonly key: string;
  /** The token that was refused. */
  readonly token: FencingToken;
  /**
   * The highest token that the gate has admitted for the key. If the gate has forgotten the key, this is the
   * highest token that the gate may have admitted.
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
 * a LockError, but not a LeaseStoreError or a LockTimeoutError. Methods pass a permanent error to their
 * caller unchanged and without a retry. A LockTimeoutError comes from a lock that the store itself uses, so a
 * retry can succeed.
 */
export function isPermanent(error: unknown): error is LockError {
  return (
    error instanceof LockError && !(error instanceof LeaseStoreError) && !(error instanceof LockTimeoutError)
  );
}

/**
 * Creates the error for a server that does not permit an operation that leases need. The error is permanent,
 * because retries fail until an administrator permits the operation.
 */
export function storeDenied(server: string, cause: unknown): LockError {
  const message = `${server} does not allow what leases need: ${messageOf(cause)}`;
  return new LockError('ERR_LEASE_STORE_DENIED', message, { cause });
}

/**
 * Creates the error for an operation that the store failed to execute on one or more keys. Returns `cause`
 * itself if `cause` is permanent.
 */
export function storeFailure(operation: string, keys: string | readonly string[], cause: unknown): LockError {
  if (isPermanent(cause)) return cause;
  const names = quotedKeys(typeof keys === 'string' ? [keys] : keys);
  return new LeaseStoreError(`the lease store failed to ${operation} ${names}: ${messageOf(cause)}`, cause);
}

/**
 * Returns the message of a thrown value, with two exceptions. If Node cannot connect to any of several
 * addresses, the message of its error is empty, so the error's code is returned. The message of a `mariadb`
 * error contains the whole SQL statement, so the error's `sqlMessage` is returned.
 */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code, sqlMessage } = error as { code?: unknown; sqlMessage?: unknown };
  if (typeof sqlMessage === 'string' && sqlMessage !== '') return sqlMessage;
  return error.message || (typeof code === 'string' ? code : error.name);
}

/**
 * The error for an acquisition that was not granted in time. `cause`: the last error of the store, if there
 * was one.
 */
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

/** The error for shared mode in a store that cannot grant keys in shared mode. */
export function cannotShare(): LockError {
  return new LockError(
    'ERR_LEASE_SHARED',
    "options.mode 'shared' needs a store that can grant a key to several readers: any store of stripelock except " +
      'cacheLeaseStore, or a store of your own with the methods of SharedLeaseStore',
  );
}

/** The error for setting the `info` of a shared lease. */
export function sharedInfo(keys: readonly string[]): LockError {
  return new LockError('ERR_LEASE_SHARED', `the lease of ${quotedKeys(keys)} is shared, so it has no info`);
}

/** The error if background renewal is requested, but no other thread can open the store. */
export function cannotReopen(): LockError {
  return new LockError(
    'ERR_LEASE_BACKGROUND',
    'options.renew.background needs a store that another thread can open again: a MemoryLeaseStore, a store that ' +
      'was created with a path, url, endpoints or clientModule, or a store of your own with a source. Neither ' +
      'the manager nor a store in memory may have a separate clock',
  );
}
