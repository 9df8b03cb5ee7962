import { threadId } from 'node:worker_threads';
import { nameOf } from '../engine/lease-table.js';
import { leaseChannels, type LeaseMessage } from '../diagnostics.js';
import { storeFailure } from './errors.js';
import type { Linked } from './hold-list.js';
import type { FencingToken, LeaseStore } from './lease-store.js';
import type { Backoff, LeaseTerms } from './options.js';
import type { Due, Schedule } from './schedule.js';

/** What a hold needs of its manager. */
export interface HoldContext {
  readonly store: LeaseStore;
  readonly schedule: Schedule;
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
 * A grant of the store: how long it is known to last, and its renewal. It is
 *
 *   held       while its local deadline is ahead
 *   lost       once that has passed, or the store has said so, or another grant has taken its place
 *   released   once its last holder has given it up
 *
 * and never comes back from the latter two. The deadline counts from before the request was sent, so that it is never
 * later than the store's.
 */
export class Hold implements Due, Linked {
  readonly key: string;
  readonly token: FencingToken;
  readonly terms: LeaseTerms;
  /** On the manager's clock. */
  expiresAt: number;
  /** When the schedule looks at it next. */
  deadline = Infinity;
  place = -1;
  /** Once it is lost. */
  lostReason: string | undefined = undefined;
  released = false;
  previous: Hold | undefined = undefined;
  next: Hold | undefined = undefined;
  /** Most have one at a time. */
  #holders: Holder | Set<Holder> | undefined = undefined;
  readonly #context: HoldContext;
  readonly #owner: string | undefined;
  readonly #since: number;
  /** When to renew next; Infinity for never. */
  #nextBeat: number;
  #failures = 0;
  /** It was lost by its deadline alone. */
  #expired = false;
  /** The renewal under way: one at a time, so that the last that the store has seen is the last that was sent. */
  #renewing: Promise<boolean> | undefined = undefined;

  /** `owner`: undefined for one without a name in a memory table. `since`: the time before the request was sent. */
  constructor(
    context: HoldContext,
    key: string,
    owner: string | undefined,
    token: FencingToken,
    terms: LeaseTerms,
    since: number,
  ) {
    this.#context = context;
    this.key = key;
    this.#owner = owner;
    this.token = token;
    this.terms = terms;
    this.#since = since;
    this.expiresAt = since + terms.ttl;
    this.#nextBeat = since + terms.every;
    this.#plan();
  }

  /** As the store knows it. */
  get owner(): string {
    return this.#owner ?? nameOf(this.token);
  }

  /** Whether it is held now, which a look at the clock decides however late timers are. */
  look(): boolean {
    if (this.released || this.lostReason !== undefined) return false;
    if (this.#context.schedule.now() < this.expiresAt) return true;
    this.#expire();
    return false;
  }

  lose(reason: string): void {
    if (this.released || this.lostReason !== undefined) return;
    this.lostReason = reason;
    this.#end();
    if (leaseChannels.lost.hasSubscribers) leaseChannels.lost.publish({ ...this.#message(), reason });
    const holders = this.#holders;
    if (holders instanceof Set) for (const holder of holders) holder[LOST](reason);
    else holders?.[LOST](reason);
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

  /** Called by the schedule. */
  run(): void {
    if (!this.look()) return;
    // The store's failures are retried until the deadline, and then the lease is lost: nobody else need know.
    if (this.#beats(this.#context.schedule.now())) this.renew(this.terms.ttl).catch(() => undefined);
    else this.#plan();
  }

  /** False if it is not held any more. Rejects with a LeaseStoreError; then it is held until its deadline still. */
  async renew(ttl: number): Promise<boolean> {
    while (this.#renewing) await this.#renewing.catch(() => undefined);
    if (!this.look()) return false;
    const renewing = this.#renew(ttl);
    this.#renewing = renewing;
    this.#plan();
    try {
      return await renewing;
    } finally {
      this.#renewing = undefined;
      if (!this.released && this.lostReason === undefined) this.#plan();
    }
  }

  /** True if this freed it. Rejects with a LeaseStoreError; it may then be called again. */
  release(): Promise<boolean> {
    if (this.lostReason !== undefined) return this.#freeExpired();
    if (!this.released) {
      this.released = true;
      this.#end();
      if (leaseChannels.released.hasSubscribers) {
        const held = this.#context.schedule.now() - this.#since;
        leaseChannels.released.publish({ ...this.#message(), held });
      }
    }
    return this.#context.free(this);
  }

  /** Ends it over its holders' heads, who are told that it is lost. Rejects with a LeaseStoreError. */
  async close(): Promise<void> {
    this.lose('its manager was closed');
    await this.#context.free(this);
  }

  announce(waited: number): void {
    if (!leaseChannels.acquired.hasSubscribers) return;
    leaseChannels.acquired.publish({ ...this.#message(), ttl: this.terms.ttl, waited });
  }

  async #renew(ttl: number): Promise<boolean> {
    const { store, schedule } = this.#context;
    const before = schedule.now();
    let renewed: boolean;
    try {
      renewed = await store.renew(this.key, this.owner, ttl);
    } catch (error) {
      this.#nextBeat = schedule.now() + this.#retryDelay();
      throw storeFailure('renew', this.key, error);
    }
    this.#failures = 0;
    if (this.released) return false;
    if (!renewed) {
      this.lose('the store says that it expired or was taken');
      return false;
    }
    if (this.lostReason === undefined && schedule.now() < before + ttl) {
      this.expiresAt = before + ttl;
      // However long it was extended for: when no more is left than at any other beat.
      this.#nextBeat = this.expiresAt - this.terms.ttl + this.terms.every;
      if (leaseChannels.renewed.hasSubscribers) leaseChannels.renewed.publish({ ...this.#message(), ttl });
      return true;
    }
    // Too late to count. Nobody uses what the store has just extended: others need not wait for it to end.
    this.#expire();
    await this.#freeExpired().catch(() => undefined);
    return false;
  }

  #expire(): void {
    if (this.lostReason === undefined) this.#expired = true;
    this.lose('its time is over');
  }

  /** The store's time for it may not be over yet. */
  #freeExpired(): Promise<boolean> {
    if (!this.#expired || this.#context.stableOwners) return Promise.resolve(false);
    return this.#context.free(this);
  }

  #retryDelay(): number {
    const { initial, max } = this.#context.backoff;
    return Math.min(initial * 2 ** this.#failures++, max, this.terms.every);
  }

  #beats(now: number): boolean {
    return !this.#renewing && now >= this.#nextBeat && now - this.#since < this.terms.maxHold;
  }

  /** Has the schedule look when something is to be done next. */
  #plan(): void {
    const mayBeat = !this.#renewing && this.#nextBeat - this.#since < this.terms.maxHold;
    this.#context.schedule.set(this, mayBeat ? Math.min(this.#nextBeat, this.expiresAt) : this.expiresAt);
  }

  #end(): void {
    this.#context.schedule.clear(this);
    this.#context.ended(this);
  }

  #message(): LeaseMessage {
    return { key: this.key, token: this.token, holder: this.owner, threadId };
  }
}
