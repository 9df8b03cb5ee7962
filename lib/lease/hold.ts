import { threadId } from 'node:worker_threads';
import { nameOf } from '../engine/lease-table.js';
import { leaseChannels, type LeaseMessage } from '../diagnostics.js';
import type { FencingToken, LeaseStore } from './lease-store.js';
import type { Backoff, LeaseTerms } from './options.js';
import { Renewal } from './renewal.js';
import type { Due, Schedule } from './schedule.js';

/** What a hold needs of its manager. */
export interface HoldContext {
  readonly store: LeaseStore;
  readonly schedule: Schedule<Hold>;
  readonly backoff: Backoff;
  /**
   * Whether owners outlive their leases. A lease that was lost is then not given back: by now the same owner may have
   * another one of that key.
   */
  readonly stableOwners: boolean;
  /** Frees the key in the store. Rejects with a LeaseStoreError. */
  free(hold: Hold): Promise<boolean>;
  /** The hold has ended, by whatever. */
  ended(hold: Hold): void;
}

/** A method of {@link Holder} that is nobody else's business. */
export const LOST = Symbol('lost');

/** Who uses a hold: a `Lease`. */
export interface Holder {
  /** The hold was lost. */
  [LOST](reason: string): void;
}

/**
 * A grant of the store: how long it is known to last. It is
 *
 *   held       while its local deadline is ahead
 *   lost       once that has passed, or the store has said so, or another grant has taken its place
 *   released   once its last holder has given it up
 *
 * and never comes back from the latter two. The deadline counts from before the request was sent, or from when a memory
 * table says that it granted, so that it is never later than the store's.
 */
export class Hold implements Due {
  readonly key: string;
  readonly token: FencingToken;
  /** The memory table's own. */
  readonly hint: number;
  readonly terms: LeaseTerms;
  /** On the manager's clock, as are all its times. */
  readonly since: number;
  expiresAt: number;
  /** When the schedule looks at it next: to renew it, or when it expires. */
  deadline: number;
  place = -1;
  /** Once it is lost. */
  lostReason: string | undefined = undefined;
  released = false;
  /** It was lost by its deadline alone. */
  #expired = false;
  /** Most have one at a time. */
  #holders: Holder | Set<Holder> | undefined = undefined;
  #renewal: Renewal | undefined = undefined;
  readonly #context: HoldContext;
  readonly #owner: string | undefined;

  /** `owner`: undefined for one without a name in a memory table. `since`: not later than it was granted. */
  constructor(
    context: HoldContext,
    key: string,
    owner: string | undefined,
    token: FencingToken,
    hint: number,
    terms: LeaseTerms,
    since: number,
  ) {
    this.#context = context;
    this.key = key;
    this.#owner = owner;
    this.token = token;
    this.hint = hint;
    this.terms = terms;
    this.since = since;
    this.expiresAt = since + terms.ttl;
    this.deadline = this.expiresAt;
    this.plan(since + terms.every);
  }

  /** As the store knows it. */
  get owner(): string {
    return this.#owner ?? nameOf(this.token);
  }

  get ended(): boolean {
    return this.released || this.lostReason !== undefined;
  }

  /** Whether it is held now, which a look at the clock decides however late timers are. */
  look(): boolean {
    if (this.ended) return false;
    if (this.#context.schedule.now() < this.expiresAt) return true;
    this.expire();
    return false;
  }

  lose(reason: string): void {
    if (this.ended) return;
    this.lostReason = reason;
    this.#end();
    if (leaseChannels.lost.hasSubscribers) leaseChannels.lost.publish({ ...this.message(), reason });
    const holders = this.#holders;
    if (holders instanceof Set) for (const holder of holders) holder[LOST](reason);
    else holders?.[LOST](reason);
  }

  expire(): void {
    if (this.lostReason === undefined) this.#expired = true;
    this.lose('its time is over');
  }

  join(holder: Holder): void {
    const holders = this.#holders;
    if (holders === undefined) this.#holders = holder;
    else if (holders instanceof Set) holders.add(holder);
    else this.#holders = new Set([holders, holder]);
  }

  /** True if it was the last. */
  leave(holder: Holder): boolean {
    const holders = this.#holders;
    if (holders instanceof Set) {
      holders.delete(holder);
      return holders.size === 0;
    }
    if (holders === holder) this.#holders = undefined;
    return this.#holders === undefined;
  }

  /** Has the schedule look at the time to renew, if it is to be renewed then, else when it expires. */
  plan(renewal: number): void {
    const renews = renewal < this.expiresAt && renewal - this.since < this.terms.maxHold;
    this.#context.schedule.set(this, renews ? renewal : this.expiresAt);
  }

  /** Called by the schedule. */
  run(now: number): void {
    if (!this.look()) return;
    if (now - this.since >= this.terms.maxHold) this.plan(Infinity);
    // The store's failures are retried until the deadline, and then the lease is lost: nobody else need know.
    else this.renew(this.terms.ttl).catch(() => undefined);
  }

  /** False if it is not held any more. Rejects with a LeaseStoreError; then it is held until its deadline still. */
  renew(ttl: number): Promise<boolean> {
    return (this.#renewal ??= new Renewal(this, this.#context)).renew(ttl);
  }

  /** True if this freed it. Rejects with a LeaseStoreError; it may then be called again. */
  release(): Promise<boolean> {
    if (this.lostReason !== undefined) return this.freeExpired();
    if (!this.released) {
      this.released = true;
      this.#end();
      if (leaseChannels.released.hasSubscribers) {
        const held = this.#context.schedule.now() - this.since;
        leaseChannels.released.publish({ ...this.message(), held });
      }
    }
    return this.#context.free(this);
  }

  /** Ends it over its holders' heads, who are told that it is lost. Rejects with a LeaseStoreError. */
  async close(): Promise<void> {
    this.lose('its manager was closed');
    await this.#context.free(this);
  }

  /** The store's time for it may not be over yet. True if this freed it. */
  freeExpired(): Promise<boolean> {
    if (!this.#expired || this.#context.stableOwners) return Promise.resolve(false);
    return this.#context.free(this);
  }

  announce(waited: number): void {
    if (!leaseChannels.acquired.hasSubscribers) return;
    leaseChannels.acquired.publish({ ...this.message(), ttl: this.terms.ttl, waited });
  }

  message(): LeaseMessage {
    return { key: this.key, token: this.token, holder: this.owner, threadId };
  }

  #end(): void {
    this.#context.schedule.clear(this);
    this.#context.ended(this);
  }
}
