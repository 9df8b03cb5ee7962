import * as channels from './announcements.js';
import { leaseChannels } from '../../common/diagnostics.js';
import type { LockError } from '../../common/errors.js';
import { afterTurn, queueMicrotask } from '../../common/host.js';
import { LeaseLostError, storeFailure } from '../contract/errors.js';
import type { FencingToken } from '../contract/lease-store.js';
import type { Backoff, LeaseTerms } from '../contract/options.js';
import { slotKey } from '../contract/slots.js';
import type { Due, Schedule } from '../time/schedule.js';
import { Users, warnForgotten } from './users.js';

/** What a hold needs of whoever keeps it: a manager, or the thread that renews in the background. */
export interface HoldContext {
  /** Asks the store. False if the owner does not hold it any more. `ttl`: as its holder counts on it. */
  renew(hold: Hold, ttl: number, info?: string): Promise<boolean>;
  readonly backoff: Backoff;
  /** On the manager's clock. It contains every hold that has not ended. */
  readonly schedule: Schedule<Hold>;
  /**
   * Whether owners outlive their leases. If so, a lost lease is not given back: the same owner may have another lease
   * of that key by now.
   */
  readonly stableOwners: boolean;
  /** Frees the key in the store. Rejects with a LeaseStoreError. */
  free(hold: Hold): Promise<boolean>;
  /** The hold was lost. */
  lost(hold: Hold): void;
}

/** What is told that a hold was lost: an AbortController, or the other holds of a lease. */
export interface LossListener {
  abort(error: LeaseLostError): void;
}

/** The reason if a hold was lost only because it expired. */
export const EXPIRED = 'it expired';
/** The reason if a hold ended because another hold of its lease was lost. */
export const OTHER_LOST = 'the lease of another of its keys was lost';

/**
 *   held       its local deadline is ahead
 *   unsure     so it is, but the last renewal failed: it is lost at the deadline unless a retry succeeds before
 *   lost       the deadline has passed, or the store has said so, or another grant has replaced it
 *   released   its last holder has released it
 *
 * It never leaves the latter two.
 */
export type HoldState = 'held' | 'unsure' | 'lost' | 'released';

/**
 * A grant of the store, and how long it is known to last. The deadline counts from before the request was sent, so
 * that it is never later than the store's.
 *
 * Its fields are declared, and none of its members has a `#`: V8 defines fields in a separate function, and marks each
 * object of a class with private methods. It inlines neither if the code becomes too long.
 */
export class Hold implements Due {
  declare readonly key: string;
  /** The owner as the store knows it. */
  declare readonly owner: string;
  declare readonly token: FencingToken;
  declare terms: LeaseTerms;
  /** When it was granted, on the manager's clock, like all its times. */
  declare readonly since: number;
  /** When the schedule looks at it next: to renew it, to warn, or because it expires. */
  declare deadline: number;
  declare place: number;
  declare state: HoldState;
  /** Undefined unless it is lost. */
  declare lostReason: string | undefined;
  /** The store may have granted the key to the same owner again, with an answer that was lost. Then the token is unknown. */
  declare mayBeReplaced: boolean;
  /** The local deadline after a renewal. */
  declare private extendedTo: number | undefined;
  /** How many of its leases have not been released. */
  declare users: number;
  /** Those leases. A single one is kept without a set until it must be watched. */
  declare private leases: object | undefined;
  /** Told when it is lost. */
  declare private listeners: Set<LossListener> | undefined;
  declare private renewal: Renewal | undefined;
  declare protected readonly context: HoldContext;

  /** The deadline is set, but the schedule does not have it yet. `since`: not later than the grant. */
  constructor(
    context: HoldContext,
    key: string,
    owner: string,
    token: FencingToken,
    terms: LeaseTerms,
    since: number,
  ) {
    this.context = context;
    this.key = key;
    this.owner = owner;
    this.token = token;
    this.terms = terms;
    this.since = since;
    this.deadline = since + terms.firstLook;
    this.place = -1;
    this.state = 'held';
    this.lostReason = undefined;
    this.mayBeReplaced = false;
    this.extendedTo = undefined;
    this.users = 0;
    this.leases = undefined;
    this.listeners = undefined;
    this.renewal = undefined;
  }

  /** Its key in the store. */
  get name(): string {
    const { slot } = this.terms;
    return slot === 0 ? this.key : slotKey(this.key, slot);
  }

  get expiresAt(): number {
    return this.renewal?.background?.deadline ?? this.extendedTo ?? this.since + this.terms.ttl;
  }

  set expiresAt(time: number) {
    this.extendedTo = time;
  }

  /** Milliseconds until the local deadline. */
  get remaining(): number {
    return this.expiresAt - this.context.schedule.now();
  }

  get ended(): boolean {
    return this.state === 'lost' || this.state === 'released';
  }

  /** Whether it is held now. Reads the clock, so that late timers do not matter. */
  look(): boolean {
    if (this.ended) return false;
    if (this.context.schedule.now() < this.expiresAt || this.renewal?.background?.recover() === true)
      return true;
    this.expire();
    return false;
  }

  /** `error`: of the hold that was lost first. */
  lose(reason: string, error?: LeaseLostError): void {
    if (this.ended) return;
    this.state = 'lost';
    this.lostReason = reason;
    this.context.schedule.clear(this);
    this.context.lost(this);
    void this.renewal?.background?.end();
    channels.announceLoss(this, reason);
    if (this.listeners === undefined) return;
    const told = error ?? this.lostError(reason);
    for (const listener of this.listeners) listener.abort(told);
  }

  expire(): void {
    this.lose(EXPIRED);
  }

  /** A lease uses it. */
  join(lease: object): void {
    if (this.users++ === 0) this.leases = lease;
    else this.sharers().add(lease);
  }

  /** A lease no longer uses it; true if it was the last. */
  leave(lease: object): boolean {
    if (this.leases instanceof Users) this.leases.delete(lease);
    return --this.users === 0;
  }

  /** A lease uses it in place of the acquisition that got it, or of a lease of fewer keys. */
  pass(from: object, to: object): void {
    if (this.leases === from) {
      this.leases = to;
    } else {
      this.sharers().delete(from);
      this.sharers().add(to);
    }
  }

  /** A lease was garbage-collected: nobody can release it any more. Others that share the hold continue. */
  forgotten(): void {
    if (this.ended || --this.users > 0) return;
    void this.renewal?.detach();
    this.plan(Infinity);
    warnForgotten(this.key);
  }

  /** Whether all leases have left. */
  get unused(): boolean {
    return this.users === 0;
  }

  /** Whether the listener will still be told when it is lost. */
  tells(listener: LossListener): boolean {
    return this.listeners?.has(listener) === true;
  }

  tellWhenLost(listener: LossListener): void {
    (this.listeners ??= new Set()).add(listener);
  }

  tellNoMore(listener: LossListener): void {
    this.listeners?.delete(listener);
  }

  lostError(reason: string): LeaseLostError {
    const failure = reason === EXPIRED ? this.renewal?.failure : undefined;
    const why = failure === undefined ? reason : `${reason}, and ${failure.message}`;
    return new LeaseLostError(this.key, this.token, why, failure);
  }

  /** Schedules it for the time of its renewal or, if there is none, for when it expires. */
  plan(renewal: number): void {
    const due = this.renews(renewal) ? renewal : this.expiresAt;
    this.context.schedule.set(this, Math.min(due, this.renewal?.warnAt ?? Infinity));
  }

  /** Called by the schedule. */
  run(now: number): void {
    const { renewal } = this;
    if (renewal?.postpones(now) === true || !this.look()) return;
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
    if (this.delegated) this.heard();
    else this.renewNow();
  }

  private renewNow(): void {
    this.watchLeases();
    // Failures of the store are retried until the deadline, and then the lease is lost. Nobody else needs the error.
    this.renew(this.terms.ttl).catch(() => undefined);
  }

  /** False if it is not held any more. Rejects with a LeaseStoreError; it is then still held until its deadline. */
  renew(ttl: number, info?: string): Promise<boolean> {
    return this.renewals.renew(ttl, info);
  }

  get renewals(): Renewal {
    return (this.renewal ??= new Renewal(this, this.context));
  }

  /** Whether another thread renews it. */
  get delegated(): boolean {
    return this.renewal?.background?.renews === true;
  }

  /** That thread has told of a renewal. */
  heard(): void {
    this.watchLeases();
    this.plan(Infinity);
  }

  /** Releases it for somebody who did not get to use it, whatever its `minHold`. */
  discard(user: object): Promise<boolean> {
    this.skipMinHold();
    return this.leave(user) ? this.release() : Promise.resolve(false);
  }

  /** Its only user did not get to use it. */
  skipMinHold(): void {
    if (this.terms.minHold > 0 && this.users <= 1) this.terms = { ...this.terms, minHold: 0 };
  }

  /** True if this call freed it. Rejects with a LeaseStoreError; then it can be called again. */
  release(): Promise<boolean> {
    if (this.look()) {
      this.state = 'released';
      this.context.schedule.clear(this);
      if (leaseChannels.released.hasSubscribers) channels.announceRelease(this, this.context.schedule.now());
    }
    // If another key was lost and this one has not expired, the store may still have it. `free` leaves a later
    // grant of the same owner.
    const isOurs = this.lostReason === OTHER_LOST && this.context.schedule.now() < this.expiresAt;
    return this.state === 'released' || isOurs ? this.context.free(this) : this.freeExpired();
  }

  /** Frees a hold that has expired here: in the store it may still be held. True if this call freed it. */
  freeExpired(): Promise<boolean> {
    if (this.lostReason !== EXPIRED || this.context.stableOwners) return Promise.resolve(false);
    return this.context.free(this);
  }

  /** Publishes to `stripelock:lease:failed`, if there is a subscriber. */
  announceFailure(operation: 'renew' | 'release', error: LockError): void {
    channels.announceFailure(this, operation, error, this.context.schedule.now());
  }

  announceRenewal(ttl: number): void {
    channels.announceRenewal(this, ttl);
  }

  private renews(at: number): boolean {
    return at < this.expiresAt && at - this.since < this.terms.maxHold && !this.unused;
  }

  /** From now on it does not keep its leases alive. */
  protected watchLeases(): void {
    this.sharers().watch();
  }

  private sharers(): Users {
    const { leases } = this;
    if (leases instanceof Users) return leases;
    const users = new Users(this, leases!);
    this.leases = users;
    return users;
  }
}

/** Milliseconds: a shorter time is not enough for a round trip. */
const SHORTEST_RETRY = 2;

/**
 * The renewals of a hold, both automatic and by hand. Another thread may do them (`delegated`): then it is told, and this
 * one only notes what it reports.
 */
export class Renewal {
  readonly #hold: Hold;
  readonly #context: HoldContext;
  /** After an answer: when the next beat is due. After a failure: when to try again. Infinity for never. */
  #next = Infinity;
  #failures = 0;
  /** The error of the last renewal; undefined if it succeeded. */
  failure: LockError | undefined;
  #postponed = false;
  /** Whether the holder has been warned of the current failures. */
  #warned = false;
  /** What keeps the hold while the event loop is blocked, until the event loop alone renews it. */
  background: Background | undefined;
  #detaching: Promise<void> = Promise.resolve();
  /** One at a time, so that the last renewal that the store sees is the last one sent. */
  #underWay: Promise<unknown> | undefined = undefined;

  constructor(hold: Hold, context: HoldContext) {
    this.#hold = hold;
    this.#context = context;
  }

  /** See `Hold.renew`. */
  async renew(ttl: number, info?: string): Promise<boolean> {
    const hold = this.#hold;
    if (hold.delegated) return this.background!.renew(ttl, info);
    while (this.#underWay) await this.#underWay.catch(() => undefined);
    if (!hold.look()) return false;
    const outcome = await this.#alone(this.#send(ttl, info));
    if (outcome !== 'late') return outcome;
    // Not before the renewal counts as answered: a release may wait for that.
    await hold.freeExpired().catch(() => undefined);
    return false;
  }

  /** Nothing else is sent until it settles. Then the next renewal is planned. */
  async #alone<T>(underWay: Promise<T>): Promise<T> {
    const hold = this.#hold;
    this.#underWay = underWay;
    if (!hold.ended) hold.plan(Infinity);
    try {
      return await underWay;
    } finally {
      this.#underWay = undefined;
      if (!hold.ended) hold.plan(this.#next);
    }
  }

  /**
   * Whether the verdict about a hold must wait until the event loop has turned: it expired, and a renewal has no
   * answer yet. If the event loop was blocked, the answer may have arrived, and Node runs timers before it reads sockets.
   */
  postpones(now: number): boolean {
    const hold = this.#hold;
    const { schedule } = this.#context;
    if (!schedule.hasTimers || this.#underWay === undefined || now < hold.expiresAt) return false;
    hold.plan(Infinity);
    if (this.#postponed) return true;
    this.#postponed = true;
    afterTurn(() => {
      this.#postponed = false;
      if (hold.look()) hold.plan(this.next);
    });
    return true;
  }

  /**
   * Resolves when the store has answered everything, in every thread. To be called when the hold has ended: it sends
   * nothing more then.
   */
  async settled(): Promise<void> {
    await this.detach();
    while (this.#underWay) await this.#underWay.catch(() => undefined);
  }

  /** When to renew again. Infinity while a renewal is pending. */
  get next(): number {
    return this.#underWay ? Infinity : this.#next;
  }

  /** When to {@link warn}; Infinity for never. */
  get warnAt(): number {
    const { terms, expiresAt, state } = this.#hold;
    if (!terms.warning || this.#warned) return Infinity;
    const at = expiresAt - terms.warning.before;
    if (state === 'unsure' || this.#underWay !== undefined) return at;
    // What renews it should have done so by then.
    return this.#hold.delegated ? Math.max(at, expiresAt - terms.ttl + terms.every) : Infinity;
  }

  warn(now: number): void {
    this.#warned = true;
    const { key, token, owner, expiresAt, terms } = this.#hold;
    try {
      terms.warning!.call({ key, token, holder: owner, remaining: expiresAt - now, cause: this.failure });
    } catch (error) {
      // Uncaught, like an error of an event listener. The timer that called this serves other leases, too.
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  /** From now on the event loop alone can renew it. Resolves when nothing else can reach the store any more. */
  detach(): Promise<void> {
    const { background } = this;
    this.background = undefined;
    if (background !== undefined) this.#detaching = this.#end(background);
    return this.#detaching;
  }

  async #end(background: Background): Promise<void> {
    const hold = this.#hold;
    const { deadline } = background;
    if (deadline !== undefined) hold.expiresAt = deadline;
    await background.end();
    // A shorter renewal by hand may have been under way.
    if (deadline !== undefined) hold.expiresAt = Math.min(hold.expiresAt, background.deadline!);
  }

  /** The same, and the event loop renews it once the other thread has sent its last renewal. */
  async takeOver(): Promise<void> {
    const { state, terms, expiresAt } = this.#hold;
    this.#next = state === 'unsure' ? this.#context.schedule.now() : expiresAt - terms.ttl + terms.every;
    await this.#alone(this.detach());
  }

  /** The other thread has renewed it. */
  succeeded(ttl: number): void {
    this.#clear();
    this.#hold.announceRenewal(ttl);
  }

  /** The other thread has failed to renew it. */
  failed(failure: LockError): void {
    const hold = this.#hold;
    this.failure = failure;
    if (hold.state === 'held') hold.state = 'unsure';
    hold.announceFailure('renew', failure);
  }

  async #send(ttl: number, info?: string): Promise<boolean | 'late'> {
    const context = this.#context;
    const { schedule } = context;
    const hold = this.#hold;
    const before = schedule.now();
    // A store that breaks the rule may shorten the lease although its answer is lost.
    if (before + ttl < hold.expiresAt) hold.expiresAt = before + ttl;
    let renewed: boolean;
    try {
      renewed = await context.renew(hold, ttl, info);
    } catch (error) {
      const now = schedule.now();
      this.#next = now + this.#retryDelay(now);
      const failure = storeFailure('renew', hold.key, error);
      this.failed(failure);
      throw failure;
    }
    this.#clear();
    if (hold.state === 'released') return false;
    if (!renewed) {
      hold.lose('the store says that it expired or was taken');
      return false;
    }
    const isInTime = schedule.now() < before + ttl;
    if (isInTime && !hold.ended) hold.expiresAt = before + ttl;
    if (!hold.ended && (isInTime || this.background?.recover() === true)) {
      // Whatever ttl it was extended by, the next beat comes when as much time is left as at any other beat.
      this.#next = hold.expiresAt - hold.terms.ttl + hold.terms.every;
      hold.announceRenewal(ttl);
      return true;
    }
    // The answer came too late to count. Nobody uses the extended lease, so others need not wait until it expires.
    hold.expire();
    return 'late';
  }

  #clear(): void {
    this.#failures = 0;
    this.failure = undefined;
    this.#warned = false;
    if (this.#hold.state === 'unsure') this.#hold.state = 'held';
  }

  /**
   * Infinity for a lease that is renewed by hand only. Never more than half of the time that is left. So an outage that
   * ends before the deadline costs nothing, and the nearer the deadline, the sooner the end of the outage is noticed.
   */
  #retryDelay(now: number): number {
    const { every } = this.#hold.terms;
    const { initial, max } = this.#context.backoff;
    if (every === Infinity) return Infinity;
    const half = Math.max((this.#hold.expiresAt - now) / 2, SHORTEST_RETRY);
    return Math.min(initial * 2 ** this.#failures++, max, every, half);
  }
}

/**
 * What keeps a hold from expiring while the event loop of its holder is blocked. Nothing here may throw.
 */
export interface Background {
  /** Whether it renews while the event loop turns, too, so that nobody else need. */
  readonly renews: boolean;
  /** The local deadline that it has achieved; undefined if the hold knows that itself. */
  readonly deadline: number | undefined;
  /** Called when the local deadline has passed: whether the hold's deadline is ahead again. */
  recover(): boolean;
  /** Only if it {@link renews}. As `Hold.renew`. */
  renew(ttl: number, info?: string): Promise<boolean>;
  /** From now on it extends nothing. Resolves when nothing that it has sent can reach the store any more. */
  end(): Promise<void>;
}
