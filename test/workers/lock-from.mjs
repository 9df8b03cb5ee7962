import { KeyedLock, StripedLock } from 'stripelock';

/** The lock of a handle, of whichever class. */
export function lockFrom(handle) {
  return handle.kind === 'stripelock/keyed-lock' ? KeyedLock.from(handle) : StripedLock.from(handle);
}
