import { threadId } from 'node:worker_threads';
import { leaseChannels, type LeaseMessage } from '../../common/diagnostics.js';
import { keyNames } from '../../common/errors.js';
import { nameOf } from '../../engine/contract/lease-table.js';
import { LeaseLostError, type LeaseStoreError } from '../contract/errors.js';
import type { FencingToken, LeaseStore } from '../contract/lease-store.js';
import type { Backoff, LeaseTerms } from '../contract/options.js';
import type { Due, Schedule } from '../time/schedule.js';
import { Renewal } from './renewal.js';
import { Users, type Forgetful } from './users.js';

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
  /** Of what the memory table granted. */
  tokenOf(granted: number): FencingToken;
  /** Frees the key in the store. Rejects with a LeaseStoreError. */
  free(hold: Hold): Promise<boolean>;
  /** The hold was lost. */
  lost(hold: Hold): void;
}

/** Why a hold is lost that nobody but the clock has ended. */
const EXPIRED = 'its time is over';

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
export class Hold implements Due, Forgetful {
  declare readonly key: string;
  /** Its token, or what names it in the memory table. */
  declare readonly granted: FencingToken | number;
  /** The memory table's own. */
  declare readonly hint: number;
  declare readonly terms: LeaseTerms;
  /** On the manager's clock, as are all its times. */
  declare readonly since: number;
  /** When the schedule looks at it next: to renew it, or when it expires. */
  declare deadline: number;
  declare place: number;
  /** Once it is lost. */
  declare lostReason: string | undefined;
  declare released: boolean;
  /** The end of its time, once it was renewed. */
  declare private extendedTo: number | undefined;
  /** How many leases have not been released. */
  declare private users: number;
  /** These; the only one itself, until it is to be watched. */
  declare private leases: object | undefined;
  /** Of those, to be aborted when it is lost. */
  declare private controllers: Set<AbortController> | undefined;
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
    granted: FencingToken | number,
    hint: number,
    terms: LeaseTerms,
    since: number,
  ) {
    this.context = context;
    this.key = key;
    this.namedOwner = owner;
    this.granted = granted;
    this.hint = hint;
    this.terms = terms;
    this.since = since;
    this.deadline = since + terms.firstLook;
    this.place = -1;
    this.lostReason = undefined;
    this.released = false;
    this.extendedTo = undefined;
    this.users = 0;
    this.leases = undefined;
    this.controllers = undefined;
    this.renewal = undefined;
  }

  get token(): FencingToken {
    const { granted } = this;
    return typeof granted === 'number' ? this.context.tokenOf(granted) : granted;
  }

  /** As the store knows it. */
  get owner(): string {
    return this.namedOwner ?? nameOf(this.token);
  }

  get expiresAt(): number {
    return this.extendedTo ?? this.since + this.terms.ttl;
  }

  set expiresAt(time: number) {
    this.extendedTo = time;
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
    if (this.controllers) for (const controller of this.controllers) controller.abort(this.lostError(reason));
  }

  expire(): void {
    this.lose(EXPIRED);
  }

  /** A lease uses it. */
  join(lease: object): void {
    if (this.users++ === 0) this.leases = lease;
    else this.sharers().add(lease);
  }

  /** A lease uses it no more; true if it was the last. `controller`: what it gave to {@link abortWhenLost}. */
  leave(lease: object, controller: AbortController | undefined): boolean {
    if (controller !== undefined) this.controllers?.delete(controller);
    if (this.leases instanceof Users) this.leases.delete(lease);
    return --this.users === 0;
  }

  /** Nobody can release that lease any more, or ask whether it is held. Others that share it go on. */
  forgotten(): void {
    if (this.ended || --this.users > 0) return;
    this.plan(Infinity);
    process.emitWarning(
      `the lease of ${keyNames([this.key])} was garbage-collected while held, so nobody can release it: ` +
        'it is renewed no more, and ends with its TTL',
      { type: 'StripelockWarning', code: 'STRIPELOCK_LEASE_FORGOTTEN' },
    );
  }

  /** Whether all leases have left. */
  get unused(): boolean {
    return this.users === 0;
  }

  /** Whether the controller is to be aborted still when it is lost. */
  watchesFor(controller: AbortController): boolean {
    return this.controllers?.has(controller) === true;
  }

  abortWhenLost(controller: AbortController): void {
    (this.controllers ??= new Set()).add(controller);
  }

  lostError(reason: string): LeaseLostError {
    const failure = reason === EXPIRED ? this.renewal?.failure : undefined;
    const why = failure === undefined ? reason : `${reason}, and ${failure.message}`;
    return new LeaseLostError(this.key, this.token, why, failure);
  }

  /** Has the schedule look at the time to renew, if it is to be renewed then, else when it expires. */
  plan(renewal: number): void {
    const renews = renewal < this.expiresAt && renewal - this.since < this.terms.maxHold && !this.unused;
    const due = renews ? renewal : this.expiresAt;
    this.context.schedule.set(this, Math.min(due, this.renewal?.warnAt ?? Infinity));
  }

  /** Called by the schedule. */
  run(now: number): void {
    if (!this.look()) return;
    const { renewal } = this;
    if (renewal !== undefined && now >= renewal.warnAt) {
      renewal.warn(now);
      if (this.ended) return;
      if (now < renewal.next) {
        this.plan(renewal.next);
        return;
      }
    }
    if (now - this.since >= this.terms.maxHold || this.unused) {
      this.plan(Infinity);
      return;
    }
    this.sharers().watch();
    // The store's failures are retried until the deadline, and then the lease is lost: nobody else need know.
    this.renew(this.terms.ttl).catch(() => undefined);
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
    if (this.lostReason !== EXPIRED || this.context.stableOwners) return Promise.resolve(false);
    return this.context.free(this);
  }

  /** To those who subscribe to `stripelock:lease:acquired`; whoever calls has seen that somebody does. */
  announce(waited: number): void {
    leaseChannels.acquired.publish({ ...this.message(), ttl: this.terms.ttl, waited });
  }

  /** To those who subscribe to `stripelock:lease:failed`, if anybody does. */
  announceFailure(operation: 'renew' | 'release', error: LeaseStoreError): void {
    if (!leaseChannels.failed.hasSubscribers) return;
    const remaining = this.expiresAt - this.context.schedule.now();
    leaseChannels.failed.publish({ ...this.message(), operation, error, remaining });
  }

  message(): LeaseMessage {
    return { key: this.key, token: this.token, holder: this.owner, threadId };
  }

  private sharers(): Users {
    const { leases } = this;
    if (leases instanceof Users) return leases;
    const users = new Users(this, leases!);
    this.leases = users;
    return users;
  }

  private announceRelease(): void {
    const held = this.context.schedule.now() - this.since;
    leaseChannels.released.publish({ ...this.message(), held });
  }
}
