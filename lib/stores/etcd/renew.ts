import { EtcdFailure } from './failure.js';
import { valueOf, type Grant } from './grant.js';
import { isUnchanged, kvOf, put, range, type Txn } from './messages.js';
import type { EtcdLease } from './etcd-leases.js';
import type { Operation } from './operation.js';
import { refresh, type Parts, type Wanted } from './parts.js';
import { execute, grantOf, read, whenMade } from './requests.js';

/** A key that is to be bound to another etcd lease. */
interface Move {
  /** In the list. */
  readonly place: number;
  readonly name: string;
  readonly grant: Grant;
}

/**
 * Extends the keys that the owner has; says which. The etcd lease of a key that this store was the last to write is
 * extended, if it has the right length. Any other key is written again, bound to an etcd lease of that length, under its
 * token. That also makes sure that an earlier renewal by another client, which may still be on its way, does not bind
 * the key to a lease that ends sooner: it compares what it has found.
 */
export async function renew(
  parts: Parts,
  operation: Operation,
  names: readonly string[],
  wanted: Wanted,
): Promise<boolean[]> {
  const { owner, info, length } = wanted;
  const renewed = names.map(() => false);
  const found: (Grant | undefined)[] = names.map(() => undefined);
  const beating: number[] = [];
  const others: number[] = [];
  names.forEach((name, i) => {
    const held = parts.held.of(name, owner);
    const beats = info === undefined && held?.lease.seconds === length.seconds;
    (beats ? beating : others).push(i);
  });
  if (beating.length > 0) await extend(parts, operation, names, owner, beating, found, renewed);
  if (others.length > 0) {
    const { grants } = await read(
      parts.cluster,
      operation,
      others.map((i) => names[i]!),
    );
    others.forEach((i, j) => (found[i] = grants[j]));
  }
  for (;;) {
    const moves: Move[] = [];
    found.forEach((grant, place) => {
      if (grant?.owner === owner && !renewed[place]) moves.push({ place, name: names[place]!, grant });
      else if (!renewed[place]) parts.held.forget(names[place]!);
    });
    if (moves.length === 0) return renewed;
    await rebind(parts, operation, moves, wanted, found, renewed);
  }
}

/** Notes what was found. A key that has been written by another client in the meantime is not renewed by that. */
async function extend(
  parts: Parts,
  operation: Operation,
  names: readonly string[],
  owner: string,
  places: readonly number[],
  found: (Grant | undefined)[],
  renewed: boolean[],
): Promise<void> {
  const held = places.map((i) => parts.held.of(names[i]!, owner)!);
  const result = await refresh(
    parts,
    operation,
    places.map((i) => names[i]!),
    held.map(({ lease }) => lease),
  );
  places.forEach((i, j) => {
    const grant = result.found[j];
    const known = held[j]!.grant;
    const same = grant?.kv.mod_revision === known.kv.mod_revision && grant?.kv.value === known.kv.value;
    found[i] = grant;
    renewed[i] = same && result.alive[j]!;
  });
}

async function rebind(
  parts: Parts,
  operation: Operation,
  moves: readonly Move[],
  { info, length }: Wanted,
  found: (Grant | undefined)[],
  renewed: boolean[],
): Promise<void> {
  // Not one that would have to be extended first: if it has gone, so would the key.
  const taken = moves.map(() => {
    const lease = parts.leases.unpark(length, true);
    return lease === undefined ? parts.leases.grant(operation, length) : { lease, made: Promise.resolve() };
  });
  const made = Promise.all(taken.map((one) => one.made));
  made.catch(() => undefined);
  const next = moves.map(({ grant }, j) => written(grant, info ?? grant.info, taken[j]!.lease));
  const txns = moves.map(({ name, grant }, j) => moving(name, grant, next[j]!));
  try {
    const {
      parts: answers,
      revision,
      again,
    } = await whenMade(made, () => execute(parts.cluster, operation, txns));
    moves.forEach(({ place, name, grant }, j) => {
      const { lease } = taken[j]!;
      const { succeeded = false, responses } = answers[j]!;
      const now = succeeded ? undefined : grantOf(kvOf(responses?.[0]));
      // By an earlier send, perhaps.
      const bound = succeeded || (again && now?.lease === lease.id);
      renewed[place] = bound;
      if (bound) {
        const mod_revision = now?.kv.mod_revision ?? revision;
        parts.dispose(name, grant);
        const kv = { value: next[j]!.kv.value!, mod_revision };
        parts.held.set(name, { grant: { ...next[j]!, kv }, lease });
      } else {
        parts.leases.park(lease);
        found[place] = now;
      }
    });
  } catch (error) {
    for (const { name } of moves) parts.held.forget(name);
    // If it may have been done, the keys need their new leases. Those that nothing is bound to end by themselves.
    const uncertain = !(error instanceof EtcdFailure) || error.uncertain;
    if (!uncertain) for (const { lease } of taken) parts.leases.withdraw(lease);
    throw error;
  }
}

/** The grant, as it is written again. Its token stays. */
function written(grant: Grant, info: string, lease: EtcdLease): Grant {
  const { base, owner, revision } = grant;
  const value = valueOf(base, owner, info, revision);
  return { base, owner, revision, info, lease: lease.id, kv: { value } };
}

function moving(name: string, { kv }: Grant, next: Grant): Txn {
  return {
    compare: isUnchanged(name, kv),
    success: [put(name, next.kv.value!, next.lease)],
    failure: [range(name)],
  };
}
