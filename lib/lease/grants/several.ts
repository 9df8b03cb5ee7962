import { LeaseStoreError, leaseTimeout } from '../contract/errors.js';
import type { LeaseTerms } from '../contract/options.js';
import { createLease, discardLease, partOf, type Lease } from '../hold/lease.js';
import { LeaseSet } from '../hold/lease-set.js';
import { askOnce } from '../wait/ask-once.js';
import { SeveralAcquisition, type Round, type Rounds } from '../wait/several.js';
import type { Grants } from './grants.js';

/** One attempt at several keys. Undefined if another owner has one of them. */
export function tryAcquireSeveral(
  grants: Grants,
  keys: readonly string[],
  terms: LeaseTerms,
  signal: AbortSignal | undefined,
): Promise<Lease | undefined> {
  return tryRound(grants, keys, terms, signal, grants.beginRound(terms, false), () => undefined);
}

/** Waits for several keys, as `Grants.acquire` does for one. */
export function acquireSeveral(
  grants: Grants,
  keys: readonly string[],
  terms: LeaseTerms,
  timeout: number,
  signal: AbortSignal | undefined,
): Promise<Lease> {
  if (keys.length === 0) return Promise.resolve(join(grants, keys, terms, []));
  if (timeout === 0) return acquireOnce(grants, keys, terms, signal);
  const rounds: Rounds = {
    backoff: grants.backoff,
    begin: () => grants.beginRound(terms, true),
    join: (leases) => join(grants, keys, terms, leases),
  };
  const wait = { key: keys[0]!, timeout, signal, waits: grants.waits };
  return grants.waits.start(new SeveralAcquisition(wait, keys, rounds));
}

async function acquireOnce(
  grants: Grants,
  keys: readonly string[],
  terms: LeaseTerms,
  signal: AbortSignal | undefined,
): Promise<Lease> {
  let failure: unknown;
  let refused: string | undefined;
  try {
    const round = grants.beginRound(terms, true);
    const lease = await tryRound(grants, keys, terms, signal, round, (key) => (refused = key));
    if (lease) return lease;
  } catch (error) {
    if (signal?.aborted === true || !(error instanceof LeaseStoreError)) throw error;
    failure = error;
  }
  throw leaseTimeout(keys, 0, failure, undefined, refused);
}

function tryRound(
  grants: Grants,
  keys: readonly string[],
  terms: LeaseTerms,
  signal: AbortSignal | undefined,
  round: Round,
  refused: (key: string) => void,
): Promise<Lease | undefined> {
  const attempts = {
    async ask(take: (lease: Lease) => boolean): Promise<boolean> {
      const result = keys.length === 0 ? [] : await round.tryAll(keys);
      if (typeof result === 'string') {
        refused(result);
        return false;
      }
      const lease = join(grants, keys, terms, result);
      if (take(lease)) return true;
      discardLease(lease).catch(() => undefined);
      return false;
    },
    end: () => round.end(),
  };
  return askOnce(attempts, signal);
}

function join(grants: Grants, keys: readonly string[], terms: LeaseTerms, leases: readonly Lease[]): Lease {
  return createLease(new LeaseSet(keys, leases.map(partOf), grants, terms.ttl));
}
