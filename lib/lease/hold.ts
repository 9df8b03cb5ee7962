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
  /** The hold was lost. */
  lost(hold: Hold): void;
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
 *
 * Its fields are declared, not defined, and none of its members has a `#`: V8 defines fields in a function of its own,
 * before the constructor, marks each object of a class with private methods, and inlines none of that where it has
 * become too long.
 */
export class Hold implements Due {
  declare readonly key: string;
  declare readonly token: FencingToken;
  /** The memory table's own. */
  declare readonly hint: number;
  declare readonly terms: LeaseTerms;
  /** On the manager's clock, as are all its times. */
  declare readonly since: number;
  declare expiresAt: number;
  /** When the schedule looks at it next: to renew it, or when it expires. */
  declare deadline: number;
  declare place: number;
  /** Once it is lost. */
  declare lostReason: string | undefined;
  declare released: boolean;
  /** It was lost by its deadline alone. */
  declare private expired: boolean;
  /** Most have one at a time. */
  declare private holders: Holder | Set<Holder> | undefined;
  declare private renewal: Renewal | undefined;
  declare private readonly context: HoldContext;
  declare private readonly namedOwner: string | undefined;

  /**
   * Not in the schedule yet; its deadline is set. `owner`: undefined for one without a name in a memory table.
   * `since`: not later than it was granted.
   */
  constructor(
    context: HoldContext,
    key: string,
    owner: string | undefined,
    token: FencingToken,
    hint: number,
    terms: LeaseTerms,
    since: number,
  ) {
    this.context = context;
    this.key = key;
    this.namedOwner = owner;
    this.token = token;
    this.hint = hint;
    this.terms = terms;
    this.since = since;
    this.expiresAt = since + terms.ttl;
    this.deadline = since + terms.firstLook;
    this.place = -1;
    this.lostReason = undefined;
    this.released = false;
    this.expired = false;
    this.holders = undefined;
    this.renewal = undefined;
  }

  /** As the store knows it. */
  get owner(): string {
    return this.namedOwner ?? nameOf(this.token);
  }

  get ended(): boolean {
    return this.released || this.lostReason !== undefined;
  }

  /** Whether it is held now, which a look at the clock decides however late timers are. */
  look(): boolean {
    if (this.ended) return false;
    if (this.context.schedule.now() < this.expiresAt) return true;
    this.expire();
    return false;
  }

  lose(reason: string): void {
    if (this.ended) return;
    this.lostReason = reason;
    this.context.schedule.clear(this);
    this.context.lost(this);
    if (leaseChannels.lost.hasSubscribers) leaseChannels.lost.publish({ ...this.message(), reason });
    const { holders } = this;
    if (holders instanceof Set) for (const holder of holders) holder[LOST](reason);
    else holders?.[LOST](reason);
  }

  expire(): void {
    if (this.lostReason === undefined) this.expired = true;
    this.lose('its time is over');
  }

  join(holder: Holder): void {
    if (this.holders === undefined) this.holders = holder;
    else this.joinOthers(holder, this.holders);
  }

  /** True if it was the last. */
  leave(holder: Holder): boolean {
    if (this.holders !== holder) return this.leaveOthers(holder);
    this.holders = undefined;
    return true;
  }

  /** Has the schedule look at the time to renew, if it is to be renewed then, else when it expires. */
  plan(renewal: number): void {
    const renews = renewal < this.expiresAt && renewal - this.since < this.terms.maxHold;
    this.context.schedule.set(this, renews ? renewal : this.expiresAt);
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
    return (this.renewal ??= new Renewal(this, this.context)).renew(ttl);
  }

  /** True if this freed it. Rejects with a LeaseStoreError; it may then be called again. */
  release(): Promise<boolean> {
    if (this.lostReason !== undefined) return this.freeExpired();
    if (!this.released) {
      this.released = true;
      this.context.schedule.clear(this);
      if (leaseChannels.released.hasSubscribers) this.announceRelease();
    }
    return this.context.free(this);
  }

  /** Ends it over its holders' heads, who are told that it is lost. Rejects with a LeaseStoreError. */
  async close(): Promise<void> {
    this.lose('its manager was closed');
    await this.context.free(this);
  }

  /** The store's time for it may not be over yet. True if this freed it. */
  freeExpired(): Promise<boolean> {
    if (!this.expired || this.context.stableOwners) return Promise.resolve(false);
    return this.context.free(this);
  }

  /** To those who subscribe to `stripelock:lease:acquired`; whoever calls has seen that somebody does. */
  announce(waited: number): void {
    leaseChannels.acquired.publish({ ...this.message(), ttl: this.terms.ttl, waited });
  }

  message(): LeaseMessage {
    return { key: this.key, token: this.token, holder: this.owner, threadId };
  }

  private announceRelease(): void {
    const held = this.context.schedule.now() - this.since;
    leaseChannels.released.publish({ ...this.message(), held });
  }

  private joinOthers(holder: Holder, others: Holder | Set<Holder>): void {
    if (others instanceof Set) others.add(holder);
    else this.holders = new Set([others, holder]);
  }

  /** Where it is not the only one, or has left already. */
  private leaveOthers(holder: Holder): boolean {
    const { holders } = this;
    if (!(holders instanceof Set)) return holders === undefined;
    holders.delete(holder);
    return holders.size === 0;
  }
}
