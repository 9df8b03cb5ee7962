import { randomBytes } from 'node:crypto';
import { localNow } from '../../common/elapsed.js';
import { setTimeout } from '../../common/host.js';
import { withDrift } from '../drift.js';
import { Operation } from '../requests.js';
import type { Cluster } from './cluster.js';
import { type EtcdFailure, isLeaseKnown, isLeaseNotFound, termOf } from './gateway.js';

/** Milliseconds between requests while a server may not know an etcd lease yet, because it has just become the leader. */
export const ELECTION_PAUSE = 20;
/** The maximum number of pending requests for the TTLs or the remaining times of etcd leases. */
export const AT_ONCE = 32;
/** The maximum number of parked etcd leases: see {@link EtcdLeases}. */
const MOST_PARKED = 64;
/** The first and the longest pause between attempts to revoke, in milliseconds. */
const REVOKE_AGAIN = 100;
const REVOKE_SELDOM = 5000;
/** Milliseconds after which the store stops trying to revoke an etcd lease. */
const REVOKED_WITHIN = 60_000;

/**
 * An etcd lease, to which a key can be bound. When the etcd lease expires or is revoked, etcd removes the
 * key.
 */
export interface EtcdLease {
  /** A positive number of 63 bits, in decimal. */
  readonly id: string;
  /** The TTL in seconds. */
  readonly seconds: number;
  /**
   * The time of the last extension, or of the creation, on the clock of `localNow`. The etcd lease lasts at
   * least its TTL after this time. The clock also runs while the machine is suspended.
   */
  since: number;
  /** True if the lease must not be bound to another key, because a request in flight may still bind it to a key. */
  tainted: boolean;
}

/** The TTL in seconds of an etcd lease that lasts at least this many milliseconds on the server's clock. */
export function secondsFor(milliseconds: number): number {
  return Math.ceil(milliseconds / 1000);
}

const ignore = (): void => undefined;

/**
 * The etcd leases of a store. When a key is released, its etcd lease is parked: the store keeps the lease for
 * another key, as long as enough of the lease's time remains. A new etcd lease would cost a write on all
 * servers.
 *
 * An id alone does not permit an operation to park or revoke an etcd lease, because the store may have parked the
 * lease since, and bound another key to it. An operation may do so only if it created the etcd lease, if it took
 * the lease out of `HeldKeys`, or if its transaction has unbound the key from the lease.
 */
export class EtcdLeases {
  readonly #cluster: Cluster;
  readonly #drift: number;
  /** The parked leases, ordered by the time of parking, the most recent last. */
  readonly #parked: EtcdLease[] = [];
  /** The ids of the etcd leases that are being revoked in the background. */
  readonly #withdrawn = new Set<string>();
  #closed = false;

  constructor(cluster: Cluster, drift: number) {
    this.#cluster = cluster;
    this.#drift = drift;
  }

  /**
   * Returns for each length, in milliseconds, an etcd lease that exists and lasts at least that long: a parked
   * lease or a new one. If one cannot be created, this rejects with an EtcdFailure and parks the others.
   *
   * No transaction may be sent before its etcd lease exists. Servers that execute such a transaction first
   * refuse it. But an etcd server that was killed executes the end of its log again when it restarts, on data
   * that may already contain the etcd lease. It then executes the refused transaction. After that, its data
   * differs from the data of other servers, and from its own answers (seen with etcd 3.4.23).
   */
  async take(operation: Operation, lengths: readonly number[]): Promise<EtcdLease[]> {
    const taken = await Promise.allSettled(
      lengths.map(async (length) => this.#reuse(length) ?? this.#create(operation, secondsFor(length))),
    );
    const failed = taken.find((one) => one.status === 'rejected');
    const leases = taken.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    if (failed === undefined) return leases;
    for (const lease of leases) this.park(lease);
    throw failed.reason;
  }

  /**
   * Withdraws all parked leases. Called when a parked lease turned out not to exist, because then the other
   * parked leases may not exist either.
   */
  unpark(): void {
    for (const lease of this.#parked.splice(0)) this.withdraw(lease);
  }

  /**
   * Extends leases. A server that believes that it is the leader answers without consulting the other
   * servers. But if this server was paused, another server may have become the leader. So the result is
   * certain only if a **later** request that needs a majority is answered in the same Raft term.
   *
   * In the result, `term` is the Raft term of the server that answered, or empty if the answers have
   * different terms. `seconds` are the new TTLs; a TTL is 0 if the lease no longer exists.
   */
  async extend(operation: Operation, ids: readonly string[]): Promise<{ term: string; seconds: number[] }> {
    // All keep-alive messages are sent in one stream.
    const body = ids.map((id) => JSON.stringify({ ID: id })).join('');
    const { messages } = await this.#cluster.call(operation, 'lease/keepalive', body);
    const terms = new Set(ids.map((_, i) => termOf(messages[i] ?? {})));
    return {
      term: terms.size === 1 ? [...terms][0]! : '',
      seconds: ids.map((id, i) => (messages[i]?.ID === id ? Number(messages[i].TTL ?? 0) : 0)),
    };
  }

  /** Keeps an etcd lease for reuse. No key may be bound to the lease any more. */
  park(lease: EtcdLease): void {
    if (lease.tainted || this.#closed) {
      this.withdraw(lease);
      return;
    }
    this.#parked.push(lease);
    if (this.#parked.length > MOST_PARKED) this.withdraw(this.#parked.shift()!);
  }

  /**
   * Call after a transaction has unbound a key from the etcd lease with this id. `known`: the lease, as
   * `HeldKeys.take` has returned it. Parks the lease if it is known, and revokes it otherwise.
   */
  unbound(id: string, known: EtcdLease | undefined): void {
    if (known) this.park(known);
    else this.withdraw({ id });
  }

  /**
   * Revokes a lease in the background. The revocation removes any key that is bound to the lease. Any later
   * request to bind a key to the lease then fails. If no server answers, the revocation is retried for a
   * while; the lease also expires by itself. `mayAppear`: whether a request in flight may still create the
   * lease after a revocation.
   */
  withdraw({ id }: Pick<EtcdLease, 'id'>, mayAppear = false): void {
    this.#withdrawn.add(id);
    const revoked = this.#revokeUntil(id, mayAppear, localNow() + REVOKED_WITHIN);
    void revoked.finally(() => this.#withdrawn.delete(id));
  }

  /** Whether this store is revoking the lease in the background. */
  isWithdrawn(id: string): boolean {
    return this.#withdrawn.has(id);
  }

  /** Revokes a lease. Resolves to true if the lease still existed. Rejects with an EtcdFailure. */
  async revoke(operation: Operation, id: string): Promise<boolean> {
    try {
      await this.#cluster.call(operation, 'lease/revoke', { ID: id });
      return true;
    } catch (error) {
      if (!isLeaseNotFound(error)) throw error;
      // If an earlier copy of this request had no certain result, that copy may have revoked the lease.
      return (error as EtcdFailure).uncertain;
    }
  }

  /** Whether a lease exists. */
  async exists(operation: Operation, id: string): Promise<boolean> {
    return (await this.secondsLeft(operation, id)) >= 0;
  }

  /** The remaining time of a lease in whole seconds, rounded down; negative if the lease does not exist. */
  async secondsLeft(operation: Operation, id: string): Promise<number> {
    const { message } = await this.#cluster.call(operation, 'lease/timetolive', { ID: id });
    return Number(message.TTL ?? 0);
  }

  /** The TTL of a lease in seconds, or 0 if the lease does not exist. */
  async ttlOf(operation: Operation, id: string): Promise<number> {
    const { message } = await this.#cluster.call(operation, 'lease/timetolive', { ID: id });
    return Number(message.grantedTTL ?? 0);
  }

  /** Revokes all parked leases, with one attempt for each. */
  async close(): Promise<void> {
    this.#closed = true;
    const parked = this.#parked.splice(0);
    await Promise.all(parked.map(({ id }) => this.#revokeOnce(id).catch(ignore)));
  }

  /** Takes the most recently parked lease that is long enough. */
  #reuse(milliseconds: number): EtcdLease | undefined {
    const seconds = secondsFor(milliseconds);
    const at = this.#parked.findLastIndex(
      (lease) => lease.seconds === seconds && !lease.tainted && this.#left(lease) >= milliseconds,
    );
    return at < 0 ? undefined : this.#parked.splice(at, 1)[0];
  }

  async #create(operation: Operation, seconds: number): Promise<EtcdLease> {
    for (;;) {
      const id = newId();
      const since = localNow();
      try {
        const request = { ID: id, TTL: String(seconds) };
        const { again } = await this.#cluster.call(operation, 'lease/grant', request);
        if (!again) return { id, seconds, since, tainted: false };
      } catch (error) {
        // If the lease already exists, an earlier copy of the request created it.
        if (!isLeaseKnown(error)) {
          if ((error as EtcdFailure).uncertain) this.withdraw({ id }, true);
          throw error;
        }
      }
      // The request was sent twice. The other copy may still be executed, even after the lease has ended and a
      // transaction was refused because of that.
      this.withdraw({ id }, true);
    }
  }

  /** A lower bound for the milliseconds that remain on the server's clock. */
  #left({ seconds, since }: EtcdLease): number {
    return seconds * 1000 - withDrift(localNow() - since, this.#drift);
  }

  async #revokeUntil(id: string, mayAppear: boolean, until: number): Promise<void> {
    for (let pause = REVOKE_AGAIN; ; pause = Math.min(2 * pause, REVOKE_SELDOM)) {
      const existed = await this.#revokeOnce(id).catch(ignore);
      if (existed === true || (existed === false && !mayAppear)) return;
      if (this.#closed || localNow() + pause > until) return;
      await new Promise((resolve) => setTimeout(resolve, pause).unref());
    }
  }

  #revokeOnce(id: string): Promise<boolean> {
    const operation = new Operation(false);
    return this.#cluster.requests.run(operation, () => this.revoke(operation, id));
  }
}

/** A random positive number of 63 bits. Two such ids practically never collide. */
function newId(): string {
  return String(randomBytes(8).readBigUInt64BE() >> 1n || 1n);
}
