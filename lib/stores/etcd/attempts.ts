import { inGroups } from '../listing.js';
import type { Operation } from '../requests.js';
import type { Attempt, Granted, Refused, Wanted } from '../server-store.js';
import { Batches } from './batches.js';
import type { Cluster } from './cluster.js';
import { AT_ONCE, ELECTION_PAUSE, type EtcdLease, type EtcdLeases } from './etcd-leases.js';
import {
  base64,
  EtcdFailure,
  hasValue,
  isAbsent,
  isLeaseNotFound,
  isNotLaterThan,
  isUnchanged,
  kvOf,
  put,
  range,
  remove,
  type Txn,
} from './gateway.js';
import {
  execute,
  grantOf,
  parse,
  read,
  tokenOf,
  valueOf,
  type Grant,
  type HeldKeys,
  type KeyNames,
  type TokenBase,
} from './keys.js';
import { rewrite, type Step } from './rewrites.js';

/**
 * The maximum number of pending batches. Acquisitions cost the most, both for the servers and for this
 * process. With more batches at once, each answer would arrive later. A late answer is bad for a grant,
 * because the lease already runs on the server before the answer arrives.
 */
const MOST_ACQUIRING = 2;

/** A request to acquire keys: all of them or none. */
interface AttemptRequest extends Wanted {
  /**
   * Whether to read the keys before the first transaction. A read costs the servers less than a refused
   * transaction.
   */
  readonly readsFirst: boolean;
}

/** The state of an attempt in progress. */
interface AttemptState extends AttemptRequest {
  /** The last known grant of each key. */
  found: (Grant | undefined)[];
  /**
   * For each key, the TTL in seconds of the etcd lease of the owner's grant that the attempt replaces. It is 0 unless
   * the owner may rely on such a grant.
   */
  replacedTtls: number[];
  /** For each key, the etcd lease to which the pending transaction binds the key. */
  leases: readonly EtcdLease[];
  result: Granted | Refused | undefined;
}

/**
 * The attempts to acquire keys for owners. An attempt gets all of its keys or none. Simultaneous attempts share a
 * request.
 */
export class Attempts {
  readonly #cluster: Cluster;
  readonly #names: KeyNames;
  readonly #base: TokenBase;
  readonly #leases: EtcdLeases;
  readonly #held: HeldKeys;
  readonly #acquiring = new Batches<AttemptRequest, Granted | Refused>(
    MOST_ACQUIRING,
    (attempts, operation) => this.#acquireAll(attempts, operation),
  );

  constructor(cluster: Cluster, names: KeyNames, base: TokenBase, leases: EtcdLeases, held: HeldKeys) {
    this.#cluster = cluster;
    this.#names = names;
    this.#base = base;
    this.#leases = leases;
    this.#held = held;
  }

  acquire(wanted: Wanted, { isAwaited }: Attempt, operation: Operation): Promise<Granted | Refused> {
    return this.#acquiring.add({ ...wanted, readsFirst: isAwaited }, operation);
  }

  /**
   * Runs one transaction per attempt. The transaction compares the token base and the keys with the values that were
   * read last, and binds each key to a separate etcd lease. Keys that were not read yet are assumed to be as this store
   * wrote them last, or free. If an owner already holds a key, its new etcd lease lasts at least as long as the old one.
   */
  async #acquireAll(
    attempts: readonly AttemptRequest[],
    operation: Operation,
  ): Promise<readonly (Granted | Refused)[]> {
    const tries: AttemptState[] = attempts.map((attempt) => {
      const { names, owner } = attempt;
      const found = names.map((name) => this.#held.of(name, owner)?.grant);
      return { ...attempt, found, replacedTtls: names.map(() => 0), leases: [], result: undefined };
    });
    const reading = tries.filter(({ readsFirst }) => readsFirst);
    if (reading.length > 0) await this.#look(reading, operation);
    for (;;) {
      const open = tries.filter(({ result }) => result === undefined);
      if (open.length === 0) return tries.map(({ result }) => result!);
      if (!(await this.#prepare(open, operation))) continue;
      const lengths = open.flatMap(({ length, replacedTtls }) =>
        replacedTtls.map((seconds) => Math.max(length, 1000 * seconds)),
      );
      const taken = await this.#leases.take(operation, lengths);
      for (const one of open) one.leases = taken.splice(0, one.names.length);
      try {
        await this.#tryAll(open, operation);
      } catch (error) {
        // The transaction may replace a grant, even later. The owner may rely on that grant's lease, so the new etcd
        // lease must not be revoked. If the new etcd lease stays unused, it expires.
        const isUncertain = !(error instanceof EtcdFailure) || error.uncertain;
        for (const { leases, replacedTtls } of open) {
          leases.forEach((lease, i) => {
            if (!isUncertain || replacedTtls[i] === 0) this.#leases.withdraw(lease);
          });
        }
        if (!isLeaseNotFound(error)) throw error;
        this.#leases.unpark();
      }
    }
  }

  /** Reads the keys of attempts, and refuses the attempts whose keys another owner holds. */
  async #look(attempts: readonly AttemptState[], operation: Operation): Promise<void> {
    const names = attempts.flatMap((one) => one.names);
    const { grants } = await read(this.#cluster, operation, names);
    for (const one of attempts) judge(one, grants.splice(0, one.names.length), operation);
  }

  /**
   * Prepares the replacement of grants that the attempts' owners already hold. Rewrites the keys with their present
   * etcd leases, unless another attempt has done so since the last renewal. A later renewal finds the key rewritten and
   * rewrites it again, so the transaction of the attempt then fails. An earlier renewal has extended the present etcd
   * lease before the new one is taken. The new one is at least as long, so it ends later. Returns false if a key has
   * changed, after updating the state of the attempts.
   */
  async #prepare(attempts: readonly AttemptState[], operation: Operation): Promise<boolean> {
    const own = attempts.flatMap((one) => {
      const { names, owner, length, found } = one;
      return names.flatMap((name, place) => {
        const grant = found[place];
        // No owner relies on a grant that this store is taking back.
        if (grant === undefined || grant.lease === '0' || this.#leases.isWithdrawn(grant.lease)) return [];
        const wanted = { names: [name], owner, length, info: undefined, claims: true };
        const step: Step = {
          name,
          wanted,
          token: undefined,
          found: grant,
          isDone: false,
          isLeaseUnknown: false,
        };
        return [{ ...step, one, place, id: grant.lease }];
      });
    });
    if (own.length === 0) return true;
    const unclaimed = own.filter(({ found }) => !found!.isClaimed);
    const lengths = inGroups(own, AT_ONCE, async ({ name, wanted, id }) => {
      const held = this.#held.of(name, wanted.owner)?.lease;
      return held?.id === id ? held.seconds : this.#leases.ttlOf(operation, id);
    });
    let seconds: readonly number[];
    let written: readonly boolean[];
    try {
      [seconds, { written }] = await Promise.all([
        lengths,
        rewrite(this.#cluster, unclaimed, unclaimed, operation),
      ]);
    } catch (error) {
      if (!isLeaseNotFound(error)) throw error;
      return this.#lookLater(attempts, operation);
    }
    for (const { one, place, found } of own) one.found[place] = found;
    if (!written.every(Boolean)) {
      for (const one of attempts) judge(one, one.found, operation);
      return false;
    }
    own.forEach(({ one, place }, i) => (one.replacedTtls[place] = seconds[i]!));
    return seconds.includes(0) ? this.#lookLater(attempts, operation) : true;
  }

  /** Call if an etcd lease was not found: the key has expired, or a new leader does not know the etcd lease yet. */
  async #lookLater(attempts: readonly AttemptState[], operation: Operation): Promise<false> {
    await operation.pause(ELECTION_PAUSE);
    await this.#look(attempts, operation);
    return false;
  }

  /**
   * Sends the transactions of the attempts. If this rejects, the caller must withdraw the etcd leases, except those that
   * may replace a grant. A transaction with a withdrawn etcd lease fails even if it is executed later.
   */
  async #tryAll(tries: readonly AttemptState[], operation: Operation): Promise<void> {
    const base = await this.#base.get(operation);
    const values = tries.map(({ owner, info }) => valueOf(base, owner, info ?? ''));
    const txns = tries.map((one, i) => this.#binding(one, base, values[i]!));
    const { parts, revision, again } = await execute(this.#cluster, operation, txns);
    tries.forEach((one, i) => {
      const { names, owner, info = '', found, leases, replacedTtls } = one;
      // From here on, the caller must not withdraw these leases, because the code below parks or keeps them.
      one.leases = [];
      const { succeeded = false, responses = [] } = parts[i]!;
      const [nowBase, ...now] = succeeded ? [] : responses.map(kvOf);
      // An earlier copy of this request may still be executed later, when the keys are free.
      if (again) for (const lease of leases) lease.tainted = true;
      const grants = again ? now.map((kv) => kv && parse(kv)) : [];
      // True if an earlier copy of the same request succeeded.
      const isBound = grants.length > 0 && grants.every((grant, j) => grant?.lease === leases[j]!.id);
      if (succeeded || isBound) {
        const at = isBound ? grants[0]!.revision : revision;
        one.result = this.#granting(one, tokenOf(base, at), leases);
        names.forEach((name, j) => {
          const lease = leases[j]!;
          // The transaction has unbound the key from the etcd lease of the owner's previous grant.
          const former = replacedTtls[j]! > 0 ? this.#held.take(name, found[j]!.lease) : undefined;
          if (former) this.#leases.park(former);
          const kv = { value: values[i]!, mod_revision: at };
          const grant = grants[j] ?? { base, owner, revision: at, info, lease: lease.id, kv };
          // Since the earlier copy, a renewal by another client of the owner may have written the key.
          if (grant.kv.value === values[i]) this.#held.set(name, { grant, lease });
        });
      } else {
        leases.forEach((lease, j) => {
          // An earlier copy may have replaced a grant on which the owner relies, or may still do so.
          if (!again || replacedTtls[j] === 0) this.#leases.park(lease);
        });
        this.#base.found(nowBase);
        judge(one, now.map(grantOf), operation);
      }
    });
  }

  #binding({ names, found, leases, replacedTtls }: AttemptState, base: string, value: string): Txn {
    const key = this.#names.base;
    const isReplaceable = (name: string, i: number): object[] => {
      const grant = found[i];
      if (grant === undefined) return [isAbsent(name)];
      if (replacedTtls[i]! > 0) return isUnchanged(name, grant.kv);
      // A comparison for equality would refuse too much, because the key may disappear during the request. When an
      // attempt times out, it withdraws its etcd lease, which removes the key. The owner's next attempt may have read
      // the key before the removal. Any other grant with the same base has a later revision, so the comparison fails
      // for it.
      return [isNotLaterThan(name, grant.kv)];
    };
    return {
      compare: [hasValue(key, base64(base)), ...names.flatMap(isReplaceable)],
      success: [
        ...names.map((name, i) => put(name, value, leases[i]!.id)),
        // An exclusive waiter has its turn now, so readers need not be put off.
        ...names.map((name) => remove(this.#names.putOff(name))),
      ],
      failure: [range(key), ...names.map(range)],
    };
  }

  #granting({ names, replacedTtls }: AttemptState, token: bigint, leases: readonly EtcdLease[]): Granted {
    this.#base.seen(token);
    const giveBack = (place: number): void => {
      // The owner may rely on the lease of a grant that this one has replaced.
      if (replacedTtls[place]! > 0) return;
      const lease = leases[place]!;
      this.#held.take(names[place]!, lease.id);
      this.#leases.withdraw(lease);
    };
    return { tokens: names.map(() => token), giveBack };
  }
}

/** Stores the grants that were read. Refuses the attempt if another owner holds one of the attempt's keys. */
function judge(one: AttemptState, found: (Grant | undefined)[], { isSubscribed }: Operation): void {
  one.found = found;
  one.replacedTtls = found.map(() => 0);
  const place = found.findIndex((grant) => grant !== undefined && grant.owner !== one.owner);
  // If the store was subscribed before the read, the server will notify it of the release.
  if (place >= 0) one.result = { place, isRegistered: isSubscribed };
}
