import { EtcdFailure } from './failure.js';
import { valueOf, type Grant } from './grant.js';
import { isUnchanged, kvOf, put, range, type Txn } from './messages.js';
import type { Operation } from './operation.js';
import { refresh, type Parts, type Wanted } from './parts.js';
import { execute, grantOf, read, whenMade } from './requests.js';

/** A key that is to be renewed. */
export interface Renewing {
  readonly name: string;
  readonly wanted: Wanted;
}

/** A key that is to be bound to another etcd lease. */
interface Move {
  /** In the list. */
  readonly place: number;
  readonly name: string;
  readonly grant: Grant;
  readonly wanted: Wanted;
}

/**
 * Extends the keys, each named once, that their owners have; says which. The etcd lease of a key that this store was the last to write is
 * extended, if it has the right length. Any other key is written again, under its token: with the etcd lease that it has,
 * which is then extended, or with a new one if that has another length. Writing it makes sure that an earlier renewal by
 * another client, which may still be on its way, does not bind the key to a lease that ends sooner: it compares what it has
 * found. A new etcd lease for each key would cost as much as an acquisition.
 */
export async function renew(
  parts: Parts,
  operation: Operation,
  keys: readonly Renewing[],
): Promise<boolean[]> {
  const names = keys.map(({ name }) => name);
  const renewed = names.map(() => false);
  const found: (Grant | undefined)[] = names.map(() => undefined);
  const beating: number[] = [];
  const others: number[] = [];
  keys.forEach(({ name, wanted: { owner, info, length } }, i) => {
    const held = parts.held.of(name, owner);
    const beats = info === undefined && held?.lease.seconds === length.seconds;
    (beats ? beating : others).push(i);
  });
  if (others.length > 0) {
    const { grants } = await read(
      parts.cluster,
      operation,
      others.map((i) => names[i]!),
    );
    others.forEach((i, j) => (found[i] = grants[j]));
    beating.push(...(await adopt(parts, operation, keys, others, found)));
  }
  if (beating.length > 0) await extend(parts, operation, keys, beating, found, renewed);
  for (;;) {
    const moves: Move[] = [];
    found.forEach((grant, place) => {
      const { name, wanted } = keys[place]!;
      if (renewed[place]) return;
      if (grant?.owner === wanted.owner) moves.push({ place, name, grant, wanted });
      else parts.held.forget(name);
    });
    if (moves.length === 0) return renewed;
    await rebind(parts, operation, moves, found, renewed);
  }
}

/** Notes what was found. A key that has been written by another client in the meantime is not renewed by that. */
async function extend(
  parts: Parts,
  operation: Operation,
  keys: readonly Renewing[],
  places: readonly number[],
  found: (Grant | undefined)[],
  renewed: boolean[],
): Promise<void> {
  const beating = places.map((i) => keys[i]!);
  const held = beating.map(({ name, wanted }) => parts.held.of(name, wanted.owner)!);
  const result = await refresh(
    parts,
    operation,
    beating.map(({ name }) => name),
    held.map(({ lease }) => lease),
  );
  places.forEach((i, j) => {
    const grant = result.found[j];
    const known = held[j]!.grant;
    const same = grant?.kv.mod_revision === known.kv.mod_revision && grant?.kv.value === known.kv.value;
    found[i] = grant;
    const { lease } = held[j]!;
    // The length of one that was adopted is known only now.
    if (!lease.made) lease.made = result.beat.seconds[j] === lease.seconds;
    renewed[i] = same && result.beat.alive[j]! && lease.made;
  });
}

/** Writes keys of another client again, as they are. Returns the places of those that this store was then the last to write. */
async function adopt(
  parts: Parts,
  operation: Operation,
  keys: readonly Renewing[],
  places: readonly number[],
  found: (Grant | undefined)[],
): Promise<number[]> {
  const adopted = places.filter((i) => {
    const { name, wanted } = keys[i]!;
    const isKnown = parts.held.of(name, wanted.owner) !== undefined;
    return !isKnown && wanted.info === undefined && found[i]?.owner === wanted.owner;
  });
  if (adopted.length === 0) return [];
  const next = adopted.map((i) => written(found[i]!, found[i]!.info, found[i]!.lease));
  const txns = adopted.map((i, j) => moving(keys[i]!.name, found[i]!, next[j]!));
  const { parts: answers, revision, again } = await execute(parts.cluster, operation, txns);
  return adopted.filter((i, j) => {
    const { succeeded = false, responses } = answers[j]!;
    const { name, wanted } = keys[i]!;
    const now = succeeded ? undefined : grantOf(kvOf(responses?.[0]));
    // By an earlier send, perhaps.
    const isOurs = succeeded || (again && now?.kv.value === next[j]!.kv.value);
    if (!isOurs) {
      found[i] = now;
      return false;
    }
    const kv = { value: next[j]!.kv.value!, mod_revision: now?.kv.mod_revision ?? revision };
    // Another client may know more about it, so it is never used for another key.
    const lease = {
      id: next[j]!.lease,
      seconds: wanted.length.seconds,
      since: 0,
      made: false,
      tainted: true,
    };
    parts.held.set(name, { grant: { ...next[j]!, kv }, lease });
    return true;
  });
}

async function rebind(
  parts: Parts,
  operation: Operation,
  moves: readonly Move[],
  found: (Grant | undefined)[],
  renewed: boolean[],
): Promise<void> {
  const taken = moves.map(({ wanted: { length } }) => parts.leases.take(operation, length));
  const made = Promise.all(taken.map((one) => one.made));
  made.catch(() => undefined);
  const next = moves.map(({ grant, wanted }, j) =>
    written(grant, wanted.info ?? grant.info, taken[j]!.lease.id),
  );
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
function written(grant: Grant, info: string, lease: string): Grant {
  const { base, owner, revision } = grant;
  const value = valueOf(base, owner, info, revision);
  return { base, owner, revision, info, lease, kv: { value } };
}

function moving(name: string, { kv }: Grant, next: Grant): Txn {
  return {
    compare: isUnchanged(name, kv),
    success: [put(name, next.kv.value!, next.lease)],
    failure: [range(name)],
  };
}
