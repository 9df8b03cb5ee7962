import {
  checkKey,
  isExact,
  reportsAbandonment,
  type FencingToken,
  type LeaseStore,
} from './contract/lease-store.js';
import { checkStore } from './contract/options.js';

/**
 * Ends the lease of a key, whichever owner holds it. The holder notices this like any other loss: its next
 * renewal is refused, and the lease's signal then aborts with a LeaseLostError. Waiting acquisitions are
 * woken as after a release. The next holder sees `lease.abandoned`, if the store can report it. Resolves to
 * false if no owner held the key.
 *
 * The function reads the key, and then releases the grant that it found, by the token of that grant. If the
 * key is granted again between these two steps, the new grant stays, and the result is false. But in a custom
 * store that is not an {@link ExactLeaseStore}, a new grant to the same owner would also end.
 *
 * The holder continues its work until it notices the loss, so the protected resource must refuse its token
 * (see {@link FencingGate}). To revoke one slot of a key with a limit, pass the key of the slot, as `list`
 * shows it. Rejects with a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad
 * arguments, and with the errors of the store's `inspect` and `release`.
 *
 * @param store The store that has the lease, such as the `store` of a manager.
 * @param key The key in the store.
 */
export async function revokeLease(store: object, key: string): Promise<boolean> {
  const checked = checkStore(store, 'store');
  const held = await checked.inspect(checkKey(key));
  if (held === undefined) return false;
  return revokeGrant(checked, { key, ...held });
}

/**
 * Ends this grant, and no other grant if the store is an {@link ExactLeaseStore}. False if the grant had
 * already ended.
 */
export function revokeGrant(
  store: LeaseStore,
  { key, owner, token }: { readonly key: string; readonly owner: string; readonly token: FencingToken },
): Promise<boolean> {
  if (reportsAbandonment(store)) return store.takeBack(key, owner, token, true);
  return isExact(store) ? store.release(key, owner, token) : store.release(key, owner);
}
