import { LeaseStoreError } from './errors.js';
import type { FencingToken } from './lease-store.js';

/** The part of a request that decides whether a grant is in time. */
export interface Asked {
  /** Names the store in the error. */
  readonly store: string;
  /** Just before the request was sent, in milliseconds on the caller's clock. */
  readonly at: number;
  readonly ttl: number;
}

/**
 * The grant, of one token or several, if it is in time. The time of a lease counts from before the request was sent, so a lease may have expired
 * when the answer arrives. Such a grant is given back, and this rejects with a LeaseStoreError. `giveBack` must free
 * exactly this grant, and no later one. If it fails, the lease ends by itself.
 */
export function grantInTime<T extends FencingToken | readonly FencingToken[]>(
  token: T,
  asked: Asked,
  now: number,
  giveBack: () => unknown,
): T | Promise<never> {
  return now - asked.at < asked.ttl ? token : refuseLate(asked, giveBack);
}

async function refuseLate({ store, ttl }: Asked, giveBack: () => unknown): Promise<never> {
  try {
    await giveBack();
  } catch {
    // The lease ends with its TTL.
  }
  throw new LeaseStoreError(
    `${store} granted a lease of ${ttl} ms when that time was already over; the grant was given back`,
  );
}
