import { randomBytes } from 'node:crypto';
import { localNow } from '../../common/elapsed.js';
import { setTimeout } from '../../common/host.js';
import { withDrift } from '../drift.js';
import { Operation } from '../requests.js';
import type { Cluster } from './cluster.js';
import { type EtcdFailure, isLeaseKnown, isLeaseNotFound, termOf } from './gateway.js';

/** How many are kept for later. */
const MOST_PARKED = 64;
/** Milliseconds between attempts to revoke, and between the last ones. */
const REVOKE_AGAIN = 100;
const REVOKE_SELDOM = 5000;
/** Milliseconds for which it is tried. */
const REVOKED_WITHIN = 60_000;

/** What a key is bound to in etcd: when it ends, or is revoked, the key goes. */
export interface EtcdLease {
  /** Decimal, of 63 bits. */
  readonly id: string;
  /** Its length. */
  readonly seconds: number;
  /** It lasts for its length from then on, or longer: a time of `localNow`, which counts while the machine is suspended. */
  since: number;
  /** Whether a server has said that it exists, or existed. */
  made: boolean;
  /** Resolves when a server has said so. */
  readonly making: Promise<void>;
  /**
   * Whether it may be bound to a key by a request that is still on its way, or may not exist. Then nothing else may ever be
   * bound to it.
   */
  tainted: boolean;
}

/** The length of an etcd lease that lasts for this time on the server's clock, in milliseconds. */
export function secondsFor(milliseconds: number): number {
  return Math.ceil(milliseconds / 1000);
}

const ignore = (): void => undefined;

/**
 * The etcd leases of a store. One that its key was released from is parked, and used again for as long as enough of its
 * time is left: a new one costs a write on all servers.
 */
export class EtcdLeases {
  readonly #cluster: Cluster;
  readonly #drift: number;
  /** The last one parked is last. */
  readonly #parked: EtcdLease[] = [];
  #closed = false;

  constructor(cluster: Cluster, drift: number) {
    this.#cluster = cluster;
    this.#drift = drift;
  }

  /** An etcd lease that lasts for this time, in milliseconds: one that is parked, or a new one, which may not be made yet. */
  take(operation: Operation, milliseconds: number): EtcdLease {
    const seconds = secondsFor(milliseconds);
    const at = this.#parked.findLastIndex(
      (lease) => lease.seconds === seconds && !lease.tainted && this.#left(lease) >= milliseconds,
    );
    return at >= 0 ? this.#parked.splice(at, 1)[0]! : this.#grant(operation, seconds);
  }

  /** One that was parked has gone, and others may have gone with it. */
  unpark(): void {
    for (const lease of this.#parked.splice(0)) this.withdraw(lease);
  }

  /**
   * Extends leases. The server that believes to lead answers alone, so it may have been replaced while it was paused. So
   * this is certain only if what is asked **afterwards**, and all servers must agree on, is answered in the same term:
   * then that leader led all the time.
   *
   * `term`: that of the server which was asked, before it asked the leader; empty if there is none. `seconds`: how long each
   * lasts; 0 for one that has gone.
   */
  async extend(operation: Operation, ids: readonly string[]): Promise<{ term: string; seconds: number[] }> {
    // One stream for all of them.
    const body = ids.map((id) => JSON.stringify({ ID: id })).join('');
    const { messages } = await this.#cluster.call(operation, 'lease/keepalive', body);
    const terms = new Set(ids.map((_, i) => termOf(messages[i] ?? {})));
    return {
      term: terms.size === 1 ? [...terms][0]! : '',
      seconds: ids.map((id, i) => (messages[i]?.ID === id ? Number(messages[i].TTL ?? 0) : 0)),
    };
  }

  /** Nothing is bound to it any more. */
  park(lease: EtcdLease): void {
    if (lease.tainted || this.#closed) {
      this.withdraw(lease);
      return;
    }
    this.#parked.push(lease);
    if (this.#parked.length > MOST_PARKED) this.withdraw(this.#parked.shift()!);
  }

  /**
   * Ends a lease, and with it what is bound to it or will be by a request that is still on its way: that fails without
   * the lease. Goes on for a while until a server has answered; then the lease ends by itself. Nobody need wait.
   */
  withdraw(lease: Pick<EtcdLease, 'id' | 'made'>): void {
    void this.#revokeUntil(lease, localNow() + REVOKED_WITHIN);
  }

  /** True if it still existed. Rejects with an EtcdFailure. */
  async revoke(operation: Operation, id: string): Promise<boolean> {
    try {
      await this.#cluster.call(operation, 'lease/revoke', { ID: id });
      return true;
    } catch (error) {
      if (!isLeaseNotFound(error)) throw error;
      // It may have been revoked by an earlier send.
      return (error as EtcdFailure).uncertain;
    }
  }

  /** Revokes what is parked, as far as the servers answer in time. */
  async close(): Promise<void> {
    this.#closed = true;
    const parked = this.#parked.splice(0);
    await Promise.all(parked.map(({ id }) => this.#revokeOnce(id).catch(ignore)));
  }

  /** A transaction that is bound to it proves that it was made, too. */
  #grant(operation: Operation, seconds: number): EtcdLease {
    const id = newId();
    const since = localNow();
    const making = this.#cluster
      .call(operation, 'lease/grant', { ID: id, TTL: String(seconds) })
      .catch((error: unknown) => {
        // It was sent twice.
        if (!isLeaseKnown(error)) throw error;
      })
      .then(
        () => {
          lease.made = true;
        },
        (error: unknown) => {
          lease.tainted = true;
          throw error;
        },
      );
    making.catch(ignore);
    const lease: EtcdLease = { id, seconds, since, made: false, tainted: false, making };
    return lease;
  }

  /** Milliseconds that it lasts, on the server's clock. */
  #left({ seconds, since }: EtcdLease): number {
    return seconds * 1000 - withDrift(localNow() - since, this.#drift);
  }

  async #revokeUntil(lease: Pick<EtcdLease, 'id' | 'made'>, until: number): Promise<void> {
    for (let pause = REVOKE_AGAIN; ; pause = Math.min(2 * pause, REVOKE_SELDOM)) {
      const existed = await this.#revokeOnce(lease.id).catch(ignore);
      // What does not exist may not have been made yet.
      if (existed === true || (existed === false && lease.made)) return;
      if (this.#closed || localNow() + pause > until) return;
      await new Promise((resolve) => setTimeout(resolve, pause).unref());
    }
  }

  #revokeOnce(id: string): Promise<boolean> {
    const operation = new Operation(false);
    return this.#cluster.requests.run(operation, () => this.revoke(operation, id));
  }
}

/** Positive, of 63 bits, so that it is nobody's yet. */
function newId(): string {
  return String(randomBytes(8).readBigUInt64BE() >> 1n || 1n);
}
