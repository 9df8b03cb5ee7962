import { outOfRange } from '../../common/errors.js';
import { checkNonEmpty, type FencingToken, type GrantDetails, type LeaseStore } from './lease-store.js';

/**
 * The owners of keys that are held in shared mode start with this text. The rest is the id of the reader that
 * formed the group, `:` and the group's token; see {@link groupName}.
 */
export const READERS = 'stripelock:readers:';

/**
 * The owner of a key that a group holds. It contains the token of the group, because the request of the reader that
 * formed the group may be executed again later. The group that this request then forms has another name.
 */
export const groupName = (reader: string, token: FencingToken | string): string =>
  `${READERS}${reader}:${token}`;

/**
 * Whether the owner of a key is the group that has this token. An owner that is not a group may have such a name, but
 * cannot know the token when it chooses the name.
 */
export const isGroupName = (owner: string, token: FencingToken): boolean =>
  owner.startsWith(READERS) && owner.endsWith(`:${token}`);

/** A grant in shared mode. */
export interface SharedGrant {
  /** The token of the group: all readers that hold the key together have the same token. */
  readonly token: FencingToken;
  /**
   * The owner under which the store keeps the key for the group. It starts with `stripelock:readers:`, and no
   * other group has the same owner. `renew` with this owner renews the key, and ignores its argument `info`.
   */
  readonly group: string;
}

/** Details of a release in shared mode, which a store may provide. */
export interface LeaveDetails {
  /**
   * False if other readers still hold the key. True or undefined if the key is free, or if the store does not
   * know.
   */
  freed?: boolean | undefined;
}

/**
 * A store that can grant a key in shared mode: several readers then hold the key together, as a group, and
 * exclude every other owner. For the other operations, the group is an owner like any other. Its lease
 * expires when the last of its readers' leases would have expired.
 */
export interface SharedLeaseStore extends LeaseStore {
  /**
   * Grants the key to the reader for at least `ttl` milliseconds if the key is free, if its lease has expired,
   * or if a group holds the key; but not while readers are put off. A join never shortens the group's lease. If
   * the reader is already in the group, it can ask again at any time. Resolves to undefined if the key is refused.
   *
   * `reader`: an id that no other acquisition has: letters, digits, `:`, `-` and `_`. If the promise rejects,
   * use another id for the next attempt, because the store removes a reader whose grant arrives too late.
   * `details`: see {@link AbandonmentLeaseStore}. The readers that join a group get the value of the reader
   * that formed it. If that value is true, the key stays abandoned when the group ends, whether by its last
   * release or by the expiry of its lease.
   */
  tryAcquireShared(
    key: string,
    reader: string,
    ttl: number,
    details?: GrantDetails,
  ): Promise<SharedGrant | undefined>;
  /**
   * Removes the reader from the group that holds the key. The last reader to leave frees the key; waiters are
   * then notified as after any release. Resolves to true if the reader was in the group. A late or repeated
   * call never affects another reader. The end of a group does not make its key abandoned; see the `details` of
   * {@link tryAcquireShared}. `details`: may receive the store's details of the release.
   */
  releaseShared(key: string, reader: string, details?: LeaveDetails): Promise<boolean>;
  /**
   * Refuses new readers for `milliseconds` from now, if a group holds the key, so that an exclusive waiter does
   * not starve. A later call may extend that time, and never shortens it. After the last reader has left, the
   * free key still refuses readers until that time, so that the waiter can acquire the key with its next attempt.
   * An exclusive grant ends the refusal. The store may end it earlier if the group's lease expires or is revoked,
   * or if the store had reserved the key for a waiter that did not take it. Resolves to true if a group holds the
   * key. Otherwise changes nothing.
   */
  putOffReaders(key: string, milliseconds: number): Promise<boolean>;
}

/** Whether the store is a {@link SharedLeaseStore}. */
export function canShare(store: LeaseStore): store is SharedLeaseStore {
  const { tryAcquireShared, releaseShared, putOffReaders } = store as Partial<SharedLeaseStore>;
  return [tryAcquireShared, releaseShared, putOffReaders].every((method) => typeof method === 'function');
}

/** Checks the id of a reader. */
export function checkReader(reader: unknown): string {
  const id = checkNonEmpty(reader, 'reader');
  if (/^[\w:-]+$/.test(id)) return id;
  throw outOfRange('reader', 'letters, digits and the characters : - _', reader);
}
