import { checkKey, isExact, type FencingToken, type LeaseStore } from './contract/lease-store.js';
import { checkStore } from './contract/options.js';

/**
 * Ends the lease that another owner holds at the key. Its holder learns of it as of any loss: at its next
 * renewal, when the lease's signal aborts with a LeaseLostError. Waiting acquisitions are woken as by a release. Resolves to false
 * if no owner held the key.
 *
 * It reads the key, and then releases the grant that it found, by its token. A grant that follows in between stays, and the result
 * is then false. In a custom store that is not an {@link ExactLeaseStore}, a later grant of the same owner would end instead.
 *
 * The holder works on until it notices, so what it guards must refuse its token (see {@link FencingGate}). To revoke a permit,
 * pass the key of its slot, as `list` shows it. Rejects with a TypeError (ERR_INVALID_ARG_TYPE) or RangeError
 * (ERR_OUT_OF_RANGE) for bad arguments, and as `inspect` and `release` of the store do.
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

/** Ends this grant and no other, if the store has exact releases. False if it has ended before. */
export function revokeGrant(
  store: LeaseStore,
  { key, owner, token }: { readonly key: string; readonly owner: string; readonly token: FencingToken },
): Promise<boolean> {
  return isExact(store) ? store.release(key, owner, token) : store.release(key, owner);
}
