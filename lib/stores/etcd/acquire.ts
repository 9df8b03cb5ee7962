import { performance } from '../../common/host.js';
import { read, execute, grantOf, whenMade, type Outcome } from './requests.js';
import { isLeaseNotFound } from './failure.js';
import { tokenOf, valueOf, type Grant } from './grant.js';
import { base64, hasValue, isAbsent, isNotLaterThan, kvOf, put, range, type Txn } from './messages.js';
import type { Beat, EtcdLease } from './etcd-leases.js';
import type { Operation } from './operation.js';
import { foreignPlace, refresh, type Parts, type Wanted } from './parts.js';

/**
 * Milliseconds: if servers take longer to answer, a new etcd lease costs less time than one that must be extended first,
 * although it costs the servers more.
 */
const SLOW = 50;

/** A store looks first whether keys are free if so many answers, one after the other, would come in time. */
const ANSWERS_TO_LOOK = 3;

/** Keys that were granted, in the order in which they were asked for. */
export interface Granted {
  readonly names: readonly string[];
  readonly tokens: readonly bigint[];
  readonly leases: readonly EtcdLease[];
}

/** Etcd leases for an attempt, one for each key. */
interface Taken {
  readonly leases: readonly EtcdLease[];
  /** When those exist that are new. */
  readonly made: Promise<unknown>;
  /** What extended those that were parked for too long. */
  readonly beat:
    { readonly answer: Beat; readonly of: readonly EtcdLease[]; readonly asked: number } | undefined;
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
  const begun = await begin(parts, operation, names, wanted, looksFirst);
  if (typeof begun === 'number') return begun;
  let { found, early } = begun;
  for (let parked = true; ;) {
    const taken = early ?? (await take(parts, operation, names.length, wanted, parked));
    early = undefined;
    const { leases } = taken;
    let settled = false;
    try {
      const base = await parts.base.get(operation);
      const value = valueOf(base, wanted.owner, wanted.info ?? '');
      const txn = txnFor(parts, base, names, found, leases, value);
      const outcome = await whenMade(taken.made, () => execute(parts.cluster, operation, [txn]));
      const written = writtenBy(outcome, names, leases);
      // Another send of the same request may be executed later, if the keys are free then.
      if (outcome.again) for (const lease of leases) lease.tainted = true;
      if (written !== undefined) {
        if (!(await lasting(parts, operation, names, taken, outcome))) {
          parked = false;
          continue;
        }
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

/** Where the transaction begins. */
interface Begun {
  readonly found: readonly (Grant | undefined)[];
  /** Etcd leases that exist; undefined if they are to be taken with the transaction. */
  readonly early: Taken | undefined;
}

/**
 * Asks for what the transaction needs: the base, if it is not known, and who has the keys, if it looks first. If servers are
 * slow, it asks for all at once, and for the etcd leases too: each answer that must be waited for costs time of the lease,
 * and a transaction that reaches the servers before its leases is refused, and costs another. Returns the place of a key
 * that another owner has.
 */
async function begin(
  parts: Parts,
  operation: Operation,
  names: readonly string[],
  wanted: Wanted,
  looksFirst: boolean,
): Promise<Begun | number> {
  const { base, cluster, leases } = parts;
  const { lag, timeout } = cluster;
  // A client whose answers all come too late would never be granted anything.
  const looks = looksFirst && ANSWERS_TO_LOOK * lag < Math.min(timeout, wanted.length.milliseconds);
  const none = names.map(() => undefined);
  if (base.isKnown && !looks) return { found: none, early: undefined };
  const isEarly = !looks || lag > SLOW;
  const taking = isEarly ? take(parts, operation, names.length, wanted, true, false) : undefined;
  const leave = (end: (lease: EtcdLease) => void): void => {
    taking?.then((taken) => taken.leases.forEach(end), ignore);
  };
  // It may reject before it is awaited.
  taking?.catch(ignore);
  try {
    const [reading] = await Promise.all([
      looks ? read(cluster, operation, names) : undefined,
      isEarly ? base.get(operation) : undefined,
    ]);
    const found = reading?.grants ?? none;
    const place = foreignPlace(found, wanted.owner);
    if (place >= 0) {
      leave((lease) => leases.park(lease));
      return place;
    }
    const early = await taking;
    await early?.made;
    return { found, early };
  } catch (error) {
    leave((lease) => leases.withdraw(lease));
    throw error;
  }
}

/** `parked`: whether leases may be used again. `spared`: whether only those that need not be extended. */
async function take(
  { leases, cluster }: Parts,
  operation: Operation,
  count: number,
  { length }: Wanted,
  parked: boolean,
  spared = cluster.lag > SLOW,
): Promise<Taken> {
  const old: EtcdLease[] = [];
  while (parked && old.length < count) {
    const lease = leases.unpark(length, spared);
    if (lease === undefined) break;
    old.push(lease);
  }
  const short = old.filter((lease) => !leases.lasts(lease, length));
  let beat: Taken['beat'];
  if (short.length > 0) {
    const asked = performance.now();
    const ids = short.map(({ id }) => id);
    const answer = await leases.extend(operation, ids);
    const of = short.filter((_, i) => answer.alive[i]);
    for (const gone of short.filter((lease) => !of.includes(lease))) old.splice(old.indexOf(gone), 1);
    if (of.length > 0) beat = { answer: { ...answer, alive: of.map(() => true) }, of, asked };
  }
  const fresh = Array.from({ length: count - old.length }, () => leases.grant(operation, length));
  const made = Promise.all(fresh.map((one) => one.made));
  made.catch(() => undefined);
  return { leases: [...old, ...fresh.map(({ lease }) => lease)], made, beat };
}

const ignore = (): void => undefined;

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

/** Whether the leases that were extended before the keys were bound to them last from then on. */
async function lasting(
  parts: Parts,
  operation: Operation,
  names: readonly string[],
  { beat }: Taken,
  { parts: [part] }: Outcome,
): Promise<boolean> {
  if (beat === undefined) return true;
  if (parts.leases.confirm(beat.answer, part!, beat.of, beat.asked)) return true;
  return (await refresh(parts, operation, names, beat.of)).beat.alive.every(Boolean);
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
