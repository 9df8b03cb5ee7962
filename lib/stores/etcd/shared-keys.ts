import { groupName } from '../../lease/contract/shared.js';
import { Operation } from '../requests.js';
import type { GrantedShared, Refused, Release, WantedShared } from '../server-store.js';
import { Batches } from './batches.js';
import type { Cluster } from './cluster.js';
import { ELECTION_PAUSE, secondsFor, type EtcdLease, type EtcdLeases } from './etcd-leases.js';
import {
  base64,
  type EtcdFailure,
  hasRevision,
  hasValue,
  isAbsent,
  isLeaseNotFound,
  isOlderThan,
  isUnchanged,
  kvOf,
  put,
  range,
  remove,
  wasCreatedAt,
  type KeyValue,
} from './gateway.js';
import {
  execute,
  firstReaderOf,
  grantOf,
  groupValueOf,
  read,
  tokenOf,
  type Grant,
  type HeldKeys,
  type KeyNames,
  type TokenBase,
} from './keys.js';

/** A reader that joins the group of a key or forms one, a reader that leaves, or a renewal of a group. */
type Request =
  | { readonly joins: string; readonly length: number }
  | { readonly leaves: string }
  | { readonly renews: string; readonly length: number };
/**
 * The answer to a reader that leaves is `left` if other readers still hold the key. The answer to a renewal is `unknown`
 * if a server did not know the group's etcd lease.
 */
type Answer = GrantedShared | Refused | boolean | 'left' | 'unknown';

/** A request in progress. */
interface Pending {
  readonly request: Request;
  answer: Answer | undefined;
  /** The grant that a transaction with a lost answer may have changed. Only for a reader that leaves. */
  uncertain: Grant | undefined;
}

/** A key as it was read. */
interface Seen {
  readonly grant: Grant | undefined;
  /** The key that puts off new readers. It outlasts its group, and the grant of an owner removes it. */
  readonly putOff: KeyValue | undefined;
}

/** The state of a key to write. */
interface Next {
  /** The id of the reader that forms a group. Undefined if the key is held, or if no reader forms a group. */
  readonly first: string | undefined;
  readonly readers: ReadonlySet<string>;
  readonly hasNewReader: boolean;
  /** Whether the last reader has left. */
  readonly isEnd: boolean;
  /** The minimum length of the lease in milliseconds; 0 if the lease need not be extended. */
  readonly length: number;
}

/** The etcd lease for a key. */
interface Binding {
  readonly id: string;
  /** The etcd lease, if no key was bound to it before. */
  readonly taken?: EtcdLease;
  /** The Raft term of the server that has extended the etcd lease. */
  readonly term?: string;
}

/**
 * The keys that readers hold together. The owner of such a key is the group, and its value names the readers. Requests
 * of this store for the same key share a transaction.
 *
 * Every store writes the keys of groups. So a request that extends a lease first extends the key's etcd lease, and
 * then writes the key, even if the value stays the same. Any write that another store had prepared before then fails.
 * A write that is prepared later keeps the etcd lease, or binds the key to a later one that is at least as long. An
 * etcd lease is revoked only after a transaction has removed the group's key from it, because other stores rely on it.
 */
export class SharedKeys {
  readonly #cluster: Cluster;
  readonly #names: KeyNames;
  readonly #base: TokenBase;
  readonly #leases: EtcdLeases;
  readonly #held: HeldKeys;
  /** The requests by key. Each key has one batch under way. */
  readonly #batches = new Map<string, Batches<{ readonly names: readonly []; request: Request }, Answer>>();

  constructor(cluster: Cluster, names: KeyNames, base: TokenBase, leases: EtcdLeases, held: HeldKeys) {
    this.#cluster = cluster;
    this.#names = names;
    this.#base = base;
    this.#leases = leases;
    this.#held = held;
  }

  async acquire(
    { name, reader, length }: WantedShared,
    operation: Operation,
  ): Promise<GrantedShared | Refused> {
    try {
      return (await this.#ask(name, { joins: reader, length }, operation)) as GrantedShared | Refused;
    } catch (error) {
      // The servers may have executed the transaction. If they execute it later than this release, the reader stays in
      // the group until the group's lease expires.
      const leaving = new Operation(false);
      this.#cluster.requests.run(leaving, () => this.release(name, reader, leaving)).catch(() => undefined);
      throw error;
    }
  }

  async release(name: string, reader: string, operation: Operation): Promise<Release> {
    const left = await this.#ask(name, { leaves: reader }, operation);
    if (left === 'left') return left;
    return left === true ? 'freed' : 'not held';
  }

  /** Undefined if a server did not know the group's etcd lease. */
  async renew(
    name: string,
    group: string,
    length: number,
    operation: Operation,
  ): Promise<boolean | undefined> {
    const answer = await this.#ask(name, { renews: group, length }, operation);
    return answer === 'unknown' ? undefined : answer === true;
  }

  /**
   * Writes a key that is bound to an etcd lease of this length. Its revision is later than that of the group, which the
   * transactions of new readers compare. While it exists, no reader forms a group. The etcd lease is only ever extended,
   * or replaced by a longer one.
   */
  async putOff(name: string, milliseconds: number, operation: Operation): Promise<boolean> {
    // Usually the holder is no group, and this is the cheapest request.
    const { grants } = await read(this.#cluster, operation, [name]);
    if (!isGroup(grants[0])) return false;
    const key = this.#names.putOff(name);
    for (;;) {
      const seen = await this.#read(name, operation);
      const { grant, putOff } = seen;
      if (!isGroup(grant)) return false;
      if (isPutOff(seen)) {
        const { seconds } = await this.#leases.extend(operation, [putOff!.lease!]);
        if (seconds[0]! >= secondsFor(milliseconds)) return true;
      }
      const [lease] = await this.#leases.take(operation, [milliseconds]);
      const txn = {
        // The group's key was created at this revision, so a late transaction does not put off the next group.
        compare: [wasCreatedAt(name, grant.revision), hasRevision(key, putOff?.mod_revision ?? '0')],
        success: [put(key, base64(grant.owner), lease!.id)],
      };
      const { parts, again } = await execute(this.#cluster, operation, [txn]);
      if (parts[0]!.succeeded) return true;
      if (!again) this.#leases.park(lease!);
    }
  }

  async #ask(name: string, request: Request, operation: Operation): Promise<Answer> {
    let batches = this.#batches.get(name);
    if (batches === undefined) {
      batches = new Batches(1, (asked, together) => this.#change(name, asked, together));
      this.#batches.set(name, batches);
    }
    try {
      return await batches.add({ names: [], request }, operation);
    } finally {
      if (batches.isIdle && this.#batches.get(name) === batches) this.#batches.delete(name);
    }
  }

  /** Reads the key and writes it, until each request has its answer. */
  async #change(
    name: string,
    asked: readonly { readonly request: Request }[],
    operation: Operation,
  ): Promise<readonly Answer[]> {
    const all = asked.map(({ request }): Pending => ({ request, answer: undefined, uncertain: undefined }));
    for (;;) {
      const pending = all.filter(({ answer }) => answer === undefined);
      if (pending.length === 0) return all.map(({ answer }) => answer!);
      const seen = await this.#read(name, operation);
      const next = await this.#plan(pending, seen, operation);
      const open = pending.filter(({ answer }) => answer === undefined);
      if (open.length === 0) continue;
      try {
        const binding = await this.#bindingFor(seen.grant, next, operation);
        if (binding === undefined) {
          for (const one of open) if ('renews' in one.request) one.answer = 'unknown';
        } else {
          await this.#write(name, seen.grant, next, binding, open, operation);
        }
      } catch (error) {
        if (!isLeaseNotFound(error)) throw error;
        if ((error as EtcdFailure).uncertain) keepUncertain(open, seen.grant);
        this.#leases.unpark();
      }
    }
  }

  /** Answers the requests that change nothing. Returns the state of the key after the other requests. */
  async #plan(pending: readonly Pending[], seen: Seen, operation: Operation): Promise<Next> {
    const { grant } = seen;
    const readers = new Set(isGroup(grant) ? grant.readers.split(',').slice(0, -1) : []);
    let [first, length]: [string | undefined, number] = [undefined, 0];
    let hasNewReader = false;
    let hasLeft = false;
    for (const one of pending) {
      const { request } = one;
      if ('leaves' in request) {
        if (readers.delete(request.leaves)) hasLeft = true;
        else one.answer = await this.#hasLeft(one, grant, operation);
        continue;
      }
      if ('renews' in request) {
        if (!isGroup(grant) || grant.owner !== request.renews) one.answer = false;
        else length = Math.max(length, request.length);
        continue;
      }
      const isNew = !readers.has(request.joins);
      if (isNew && ((grant !== undefined && !isGroup(grant)) || isPutOff(seen))) {
        one.answer = { place: 0, isRegistered: operation.isSubscribed };
        continue;
      }
      hasNewReader ||= isNew;
      if (grant === undefined) first ??= request.joins;
      readers.add(request.joins);
      length = Math.max(length, request.length);
    }
    return { first, readers, hasNewReader, isEnd: hasLeft && readers.size === 0, length };
  }

  /**
   * Whether a transaction with a lost answer removed a reader that is not in the group. If the group has ended since,
   * its etcd lease shows this: it no longer exists if the group expired.
   */
  async #hasLeft(
    { uncertain: before }: Pending,
    now: Grant | undefined,
    operation: Operation,
  ): Promise<boolean> {
    if (before === undefined) return false;
    if (now?.base === before.base && now.revision === before.revision) return true;
    return this.#leases.exists(operation, before.lease);
  }

  /**
   * Extends the key's etcd lease, or takes a longer one. Never takes a shorter one, because other readers rely on its
   * length. Undefined if that length is unknown.
   */
  async #bindingFor(
    grant: Grant | undefined,
    { isEnd, length }: Next,
    operation: Operation,
  ): Promise<Binding | undefined> {
    const id = grant?.lease;
    if (id !== undefined) {
      if (isEnd || length === 0) return { id };
      const { term, seconds } = await this.#leases.extend(operation, [id]);
      if (seconds[0]! >= secondsFor(length)) return { id, term };
      // The key may have expired. A new leader may also not know the etcd lease yet.
      if (seconds[0] === 0) return operation.pause(ELECTION_PAUSE).then(() => undefined);
    }
    const [taken] = await this.#leases.take(operation, [length]);
    return { id: taken!.id, taken: taken! };
  }

  /** Writes the key if it is unchanged since it was read, and answers requests. */
  async #write(
    name: string,
    before: Grant | undefined,
    { first, readers, hasNewReader, isEnd }: Next,
    { id, taken, term }: Binding,
    open: readonly Pending[],
    operation: Operation,
  ): Promise<void> {
    const base = before?.base ?? (await this.#base.get(operation));
    const list = [...readers, ''].join(',');
    const former = first ?? firstReaderOf(before!.owner);
    const value = groupValueOf(base, former, list, before?.revision);
    const outcome = await execute(this.#cluster, operation, [
      {
        compare:
          before === undefined
            ? [hasValue(this.#names.base, base64(base)), isAbsent(name), isAbsent(this.#names.putOff(name))]
            : [
                ...isUnchanged(name, before.kv),
                ...(hasNewReader ? [isOlderThan(this.#names.putOff(name), before.revision)] : []),
              ],
        success: [isEnd ? remove(name) : put(name, value, id)],
        failure: [range(this.#names.base)],
      },
    ]);
    const { succeeded, responses } = outcome.parts[0]!;
    // An earlier copy of this request may still be executed later, when the key is free.
    if (outcome.again && taken !== undefined) taken.tainted = true;
    if (succeeded !== true) {
      this.#base.found(kvOf(responses?.[0]));
      // An earlier copy of the request may have bound the key to the etcd lease.
      if (outcome.again) keepUncertain(open, before);
      else if (taken !== undefined) this.#leases.park(taken);
      return;
    }
    if (before !== undefined && (isEnd || taken !== undefined)) this.#held.leave(name, before);
    const revision = before?.revision ?? outcome.revision;
    const token = tokenOf(base, revision);
    const group = groupName(former, token);
    if (taken !== undefined) {
      const kv = { value, mod_revision: outcome.revision };
      const grant = { base, owner: group, revision, info: '', readers: list, lease: id, kv };
      this.#held.set(name, { grant, lease: taken });
    }
    // The answers of different Raft terms do not prove that the etcd lease was extended.
    const isExtended = taken !== undefined || term === outcome.term;
    if (before === undefined) this.#base.seen(token);
    for (const one of open) {
      if ('leaves' in one.request) one.answer = isEnd || 'left';
      else if (isExtended && !isEnd) one.answer = 'renews' in one.request || { token, group };
    }
    if (term !== undefined && !isExtended) await operation.pause(ELECTION_PAUSE);
  }

  async #read(name: string, operation: Operation): Promise<Seen> {
    const success = [range(name), range(this.#names.putOff(name))];
    const { message } = await this.#cluster.call(operation, 'kv/txn', { success });
    const [key, putOff] = (message.responses ?? []).map(kvOf);
    return { grant: grantOf(key), putOff };
  }
}

/** Whether readers hold the key. */
function isGroup(grant: Grant | undefined): grant is Grant & { readonly readers: string } {
  return grant?.readers !== undefined;
}

function isPutOff({ grant, putOff }: Seen): boolean {
  if (putOff === undefined) return false;
  return grant === undefined || BigInt(putOff.mod_revision!) > BigInt(grant.revision);
}

/** Records that a transaction may have been executed, for the readers that leave. */
function keepUncertain(open: readonly Pending[], grant: Grant | undefined): void {
  for (const one of open) if ('leaves' in one.request) one.uncertain = grant;
}
