import { read, execute, grantOf, whenMade, type Outcome } from './requests.js';
import { isLeaseNotFound } from './failure.js';
import { tokenOf, valueOf, type Grant } from './grant.js';
import { base64, hasValue, isAbsent, isNotLaterThan, kvOf, put, range, type Txn } from './messages.js';
import type { EtcdLease } from './etcd-leases.js';
import type { Operation } from './operation.js';
import { foreignPlace, type Parts, type Wanted } from './parts.js';

/** Keys that were granted, in the order in which they were asked for. */
export interface Granted {
  readonly names: readonly string[];
  readonly tokens: readonly bigint[];
  readonly leases: readonly EtcdLease[];
}

/**
 * Grants all of the keys, or returns the place of the first that another owner has. One transaction does it, which
 * compares the base of tokens and that the keys are as they were found; the first assumes that they are free. It binds each
 * key to an etcd lease of its own.
 *
 * If this rejects, the leases are withdrawn: a transaction that is still on its way fails without them.
 */
export async function acquire(
  parts: Parts,
  operation: Operation,
  names: readonly string[],
  wanted: Wanted,
  looksFirst: boolean,
): Promise<Granted | number> {
  let found: readonly (Grant | undefined)[] = names.map(() => undefined);
  if (looksFirst) {
    found = (await read(parts.cluster, operation, names)).grants;
    const place = foreignPlace(found, wanted.owner);
    if (place >= 0) return place;
  }
  for (let parked = true; ;) {
    const taken = names.map(() => parts.leases.take(operation, wanted.length, parked));
    const leases = taken.map(({ lease }) => lease);
    const made = Promise.all(taken.map((one) => one.made));
    made.catch(() => undefined);
    let settled = false;
    try {
      const base = await parts.base.get(operation);
      const value = valueOf(base, wanted.owner, wanted.info ?? '');
      const txn = txnFor(parts, base, names, found, leases, value);
      const outcome = await whenMade(made, () => execute(parts.cluster, operation, [txn]));
      const written = writtenBy(outcome, names, leases);
      // Another send of the same request may be executed later, if the keys are free then.
      if (outcome.again) for (const lease of leases) lease.tainted = true;
      if (written !== undefined) {
        settled = true;
        return record(parts, base, names, found, leases, wanted, value, written);
      }
      settled = true;
      for (const lease of leases) parts.leases.park(lease);
      const [nowBase, ...kvs] = (outcome.parts[0]!.responses ?? []).map(kvOf);
      parts.base.isStill(base, nowBase);
      found = kvs.map(grantOf);
      const place = foreignPlace(found, wanted.owner);
      if (place >= 0) return place;
    } catch (error) {
      // One that was parked has gone.
      if (!parked || !isLeaseNotFound(error)) throw error;
      parked = false;
    } finally {
      if (!settled) for (const lease of leases) parts.leases.withdraw(lease);
    }
  }
}

/**
 * The key is free, or is still what its owner has. It may go meanwhile: an attempt that had no answer in time withdraws its
 * etcd lease, while the next one has found what that granted. With the same base, revisions of others' grants are later.
 */
function isNotLater(name: string, found: Grant | undefined): object {
  return found === undefined ? isAbsent(name) : isNotLaterThan(name, found.kv);
}

function txnFor(
  parts: Parts,
  base: string,
  names: readonly string[],
  found: readonly (Grant | undefined)[],
  leases: readonly EtcdLease[],
  value: string,
): Txn {
  const key = parts.names.base;
  const same = names.map((name, i) => isNotLater(name, found[i]));
  return {
    compare: [hasValue(key, base64(base)), ...same],
    success: names.map((name, i) => put(name, value, leases[i]!.id)),
    failure: [range(key), ...names.map(range)],
  };
}

/** The revision at which the keys were bound to these leases; undefined if they were not. */
function writtenBy(
  { parts: [part], revision, again }: Outcome,
  names: readonly string[],
  leases: readonly EtcdLease[],
): string | undefined {
  if (part!.succeeded) return revision;
  if (!again) return undefined;
  // By an earlier send.
  const kvs = names.map((_, i) => kvOf(part!.responses?.[i + 1]));
  return kvs.every((kv, i) => kv?.lease === leases[i]!.id) ? kvs[0]!.mod_revision : undefined;
}

function record(
  parts: Parts,
  base: string,
  names: readonly string[],
  before: readonly (Grant | undefined)[],
  leases: readonly EtcdLease[],
  { owner, info = '' }: Wanted,
  value: string,
  revision: string,
): Granted {
  const kv = { value, mod_revision: revision };
  const token = tokenOf(base, revision);
  parts.base.seen(token);
  names.forEach((name, i) => {
    const lease = leases[i]!;
    // What the owner had before.
    if (before[i] && before[i].lease !== lease.id) parts.dispose(name, before[i]);
    parts.held.set(name, { grant: { base, owner, revision, info, lease: lease.id, kv }, lease });
  });
  return { names, tokens: names.map(() => token), leases };
}
