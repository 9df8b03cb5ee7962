import { KeyedLock, StripedLock } from 'stripelock';
import { ProcessUnderTest } from './process-under-test.mjs';

/** The lock of a handle, of whichever class. */
export function lockFrom(handle) {
  if (handle.kind === 'process') return ProcessUnderTest.from(handle);
  return handle.kind === 'stripelock/keyed-lock' ? KeyedLock.from(handle) : StripedLock.from(handle);
}
