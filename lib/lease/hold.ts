import { threadId } from 'node:worker_threads';
import { leaseChannels, type LeaseMessage } from '../common/diagnostics.js';
import { quotedKeys, type LockError } from '../common/errors.js';
import { afterTurn, HostFinalizationRegistry, queueMicrotask } from '../common/host.js';
import { warn } from '../common/warnings.js';
import { addCount, COUNT, type Count } from '../engine/contract/counts.js';
import { LeaseLostError } from './contract/errors.js';
import type { FencingToken } from './contract/lease-store.js';
import type { Backoff, LeaseTerms } from './contract/options.js';
import type { Heartbeat } from './heartbeat.js';
import type { Due } from './schedule.js';

/**
 * A listener that is notified when a hold is lost. It is the AbortController of a lease's signal, or an
 * object that ends the other holds of the same lease.
 */
export interface LossListener {
  abort(error: LeaseLostError): void;
}

/** The reason that is given if a hold was lost because it expired. */
export const EXPIRED = 'it expired';
/** The reason that is given if a hold was lost because another hold of the same lease was lost. */
export const OTHER_LOST = 'the lease of another of its keys was lost';
/**
 * A renewal may be sent early, by up to 1/`EARLY` of the renewal interval, so that it can share a request
 * with other renewals.
 */
const EARLY = 10;
/**
 * The shortest pause before a retry near the deadline, in milliseconds. Shorter pauses are useless, because a
 * round trip to the store takes about as long.
 */
const SHORTEST_RETRY = 2;

/** The value of `#ended` after the last user (see {@link Hold.users}) has released the hold. */
const RELEASED = 'it was released';

/** The local deadline of a lease: the time, in milliseconds, until which the holder can rely on the lease. */
export interface LocalDeadline {
  time: number;
}

/**
 * The connection of a hold to the renewing thread: a worker that renews leases while the event loop of their
 * holder is blocked. The worker renews the hold, and sets the local deadline. No member may throw
 * synchronously.
 */
export interface Background extends LocalDeadline {
  /** Renews the lease in the renewing thread, as {@link Heartbeat.renew} does. */
  renew(ttl: number, info?: string): Promise<boolean>;
  /**
   * Stops the renewals in the renewing thread. Resolves when the store has answered all renewals that the
   * renewing thread has sent.
   */
  end(): Promise<void>;
}

/** A key that the store has granted. */
export interface Grant {
  readonly key: string;
  /** The store key, which differs from `key` if the slot is above 0. */
  readonly name: string;
  /** The name of the owner in the store. In shared mode, it is the group of readers that hold the key. */
  readonly owner: string;
  /** In shared mode: the id of the reader in the group. */
  readonly reader?: string | undefined;
  readonly terms: LeaseTerms;
  readonly token: FencingToken;
  /** See {@link Lease.abandoned}. */
  readonly abandoned?: boolean | undefined;
  /**
   * The time just before the request for the key was sent. All times of a hold are on the clock of the
   * heartbeat's schedule.
   */
  readonly since: number;
}

/**
 * A granted key, with its local deadline and the time of its next renewal. A {@link Heartbeat} sends the
 * renewals. The local deadline counts from the time just before the last answered request was sent, so it is
 * never later than the store's deadline. A hold has three states:
 *
 *   held       The local deadline has not passed. If the last renewal failed, the hold will be lost at the
 *              deadline unless a retry succeeds.
 *   lost       The deadline has passed, the store reported the loss, another grant has replaced this grant,
 *              another key of the lease was lost, or the manager was closed.
 *   released   The last user has released the hold.
 *
 * A hold that is lost or released never changes its state again.
 *
 * The users of a hold are leases in the manager's thread. If the renewing thread renews the grant, that
 * thread has a second hold of the same grant. Both holds share the local deadline. The second hold only sends
 * renewals.
 */
export class Hold implements Due, Grant {
  readonly key: string;
  readonly name: string;
  readonly owner: string;
  readonly reader: string | undefined;
  readonly terms: LeaseTerms;
  readonly token: FencingToken;
  readonly since: number;
  readonly abandoned: boolean | undefined;
  /**
   * The time when the schedule runs this hold next: to renew the lease, to warn its holder, or to check
   * whether the lease has expired.
   */
  deadline = Infinity;
  place = -1;
  readonly heartbeat: Heartbeat;
  /** The reason why the hold was lost, or {@link RELEASED}. Undefined if the hold has not ended. */
  #ended: string | undefined;
  #local: LocalDeadline;
  #failure: LockError | undefined;
  /** The number of renewals that have failed in a row. */
  #failures = 0;
  /** The time when the next automatic renewal is due; Infinity for never. */
  #next: number;
  /** The number of renewals without an answer, including renewals that were not sent yet. */
  #renewals = 0;
  #background: Background | undefined;
  #isPostponed = false;

  /**
   * Records the release in the profile that is running. Set when the release begins; undefined if no profile
   * is running then. An exclusive release calls it at once. A reader's release calls it when the answer says
   * that the key may be free.
   */
  recordRelease: (() => void) | undefined;
  #minHold: number;
  #mayBeReplaced = false;
  #users = 0;
  /** Whether a caller had a lease of this hold, and released it or lost the reference to it. */
  #wasUsed = false;
  #isGivenBack = false;
  /**
   * The first lease that uses this hold; undefined after the first renewal. Until then, this reference keeps
   * the lease alive, so the lease need not be registered for notification of its garbage collection.
   * Registering costs half as much as an acquisition. A lease that is released before its first renewal
   * avoids this cost.
   */
  #kept: object | undefined;
  #wasRenewed = false;
  #listeners: Set<LossListener> | undefined;
  /** Whether the holder was warned since the store last answered a renewal. */
  #warned = false;

  /** The schedule does not run the new hold before {@link plan} is called. */
  constructor(heartbeat: Heartbeat, grant: Grant, local?: LocalDeadline) {
    const { terms, since } = grant;
    this.abandoned = grant.abandoned;
    this.heartbeat = heartbeat;
    this.key = grant.key;
    this.name = grant.name;
    this.owner = grant.owner;
    this.reader = grant.reader;
    this.token = grant.token;
    this.terms = terms;
    this.since = since;
    this.#local = local ?? { time: since + terms.ttl };
    this.#next = since + terms.every;
    this.#minHold = terms.minHold;
  }

  /** The local deadline. */
  get expiresAt(): number {
    return this.#local.time;
  }

  /** Does nothing after the hold has ended, because an ended hold must not appear to be held again. */
  set expiresAt(time: number) {
    if (!this.ended) this.#local.time = time;
  }

  get ended(): boolean {
    return this.#ended !== undefined;
  }

  get isReleased(): boolean {
    return this.#ended === RELEASED;
  }

  /** The reason why the hold was lost; undefined unless it was lost. */
  get lostReason(): string | undefined {
    return this.isReleased ? undefined : this.#ended;
  }

  /** The error of the last renewal; undefined if that renewal succeeded, or if there was none. */
  get failure(): LockError | undefined {
    return this.#failure;
  }

  /** The connection to the other thread that renews this hold; undefined if the current thread renews it. */
  get background(): Background | undefined {
    return this.#background;
  }

  /** Lets another thread renew this hold from now on. */
  attach(background: Background): void {
    this.#background = background;
    this.#local = background;
  }

  /** Stops the renewals by the other thread, if there is one. Resolves when that thread has stopped them. */
  async detach(): Promise<void> {
    const background = this.#background;
    if (background === undefined) return;
    await background.end();
    this.#background = undefined;
    // Keeps the last deadline that the other thread has set.
    if (this.#local === background) this.#local = { time: background.time };
  }

  /** Stops the renewals by another thread, and continues them in this thread. */
  async takeOver(): Promise<void> {
    const { ttl, every } = this.terms;
    this.#next = this.#failure !== undefined ? this.heartbeat.schedule.now() : this.expiresAt - ttl + every;
    await this.detach();
    if (!this.ended) this.plan();
  }

  /**
   * Whether the key is held now. Reads the clock, because timers may be late. If the deadline has passed,
   * marks the hold as lost.
   */
  checkHeld(): boolean {
    if (this.ended) return false;
    if (this.heartbeat.schedule.now() < this.expiresAt) return true;
    this.lose(EXPIRED);
    return false;
  }

  /**
   * Marks the hold as lost, unless it has already ended. `error`: if another key of the lease was lost first,
   * the error of that key.
   */
  lose(reason: string, error?: LeaseLostError): void {
    if (this.ended) return;
    this.#end(reason);
    this.wasLost(reason, error);
  }

  /** Marks the hold as released: it has no user any more, and is not renewed again. */
  protected wasReleased(): void {
    this.#end(RELEASED);
  }

  /**
   * Runs a renewal. The renewal may first wait for earlier operations. During this time the hold stays in the
   * schedule: the hold may expire, and a manager that closes ends the holds in its schedule.
   */
  async during<T>(renewal: () => Promise<T>): Promise<T> {
    this.#renewals++;
    this.plan();
    try {
      return await renewal();
    } finally {
      this.#renewals--;
      if (!this.ended) this.plan();
    }
  }

  /**
   * Call when a renewal was answered in time. `until`: the new local deadline. The time from the next
   * automatic renewal to the deadline is the same as usual, even if `ttl` differs from the lease's own TTL.
   */
  extended(until: number, ttl: number): void {
    this.expiresAt = until;
    this.#next = until - this.terms.ttl + this.terms.every;
    this.announceRenewal(ttl);
  }

  /** Call when the store has answered a renewal without an error, whether or not it extended the lease. */
  answered(): void {
    this.#failures = 0;
    this.#failure = undefined;
    this.#warned = false;
    this.#wasRenewed = true;
    const kept = this.#kept;
    this.#kept = undefined;
    if (kept !== undefined) this.keep(kept);
  }

  /** Call when a renewal has failed. */
  failed(failure: LockError): void {
    this.#failure = failure;
    this.announceFailure('renew', failure);
  }

  /**
   * Call after a failed renewal: plans a retry, unless the lease has no automatic renewals. The pause before
   * the retry is at most half of the time until the deadline. So retries become more frequent as the deadline
   * approaches.
   */
  retryBy({ initial, max }: Backoff): void {
    const { every } = this.terms;
    if (every === Infinity) return;
    const now = this.heartbeat.schedule.now();
    const half = Math.max((this.expiresAt - now) / 2, SHORTEST_RETRY);
    this.#next = now + Math.min(initial * 2 ** this.#failures++, max, every, half);
  }

  /** See {@link Due.slack}. A retry is never sent early, so the slack is 0 after a failure. */
  get slack(): number {
    return this.#failures === 0 && this.#renewsAt < this.expiresAt ? this.terms.every / EARLY : 0;
  }

  /** Schedules the hold for its renewal, its warning, its deadline or `latest`, whichever comes first. */
  plan(latest = Infinity): void {
    this.heartbeat.schedule.set(this, Math.min(this.#renewsAt, this.expiresAt, this.#warnAt, latest));
  }

  /** Called by the schedule. */
  run(now: number): void {
    if (this.lostReason !== undefined) {
      this.#leaveAtDeadline();
      return;
    }
    if (this.#postpones(now) || !this.checkHeld()) return;
    if (now >= this.#warnAt) this.#warn(now);
    if (this.ended) return;
    if (this.#renewsAt - this.slack > now) {
      this.plan();
      return;
    }
    // If the store fails, the renewal is retried until the deadline, and then the lease is lost. So this
    // error can be ignored.
    this.heartbeat.renew(this, this.terms.ttl).catch(() => undefined);
  }

  /** Milliseconds until the local deadline. */
  get remaining(): number {
    return this.expiresAt - this.heartbeat.schedule.now();
  }

  /**
   * Milliseconds for which the store must keep the key taken if the hold is released now; 0 if the key can be
   * freed at once.
   */
  get minHoldLeft(): number {
    const minHold = this.#minHold;
    if (minHold === 0) return 0;
    return Math.min(Math.max(0, Math.ceil(this.since + minHold - this.heartbeat.schedule.now())), minHold);
  }

  /**
   * Call when a user gives the key back without having used it: the `minHold` then does not apply. Does
   * nothing if the hold has other users.
   */
  markGivenBack(): void {
    if (this.users > 1) return;
    this.#minHold = 0;
    this.#isGivenBack = !this.#wasUsed;
  }

  /** Whether the last user gave the hold back, and no user had used it. */
  get isGivenBack(): boolean {
    return this.#isGivenBack;
  }

  /**
   * The number of leases that use this hold, including acquisitions that have no lease yet. A hold without
   * users is not renewed.
   */
  get users(): number {
    return this.#users;
  }

  join(): void {
    this.#users++;
  }

  /** Removes a user. True if that was the last user. */
  leave(): boolean {
    return --this.#users === 0;
  }

  /**
   * Registers the lease, so that {@link forgotten} is called if the lease is garbage-collected before
   * {@link drop} is called. Until the first renewal, the hold keeps the lease alive instead (see `#kept`).
   */
  keep(lease: object): void {
    if (this.#kept === undefined && !this.#wasRenewed) this.#kept = lease;
    else collected.register(lease, this, lease);
  }

  /**
   * Call when the lease is released. Undoes {@link keep}. `wasUsed`: false if no caller ever got the lease.
   */
  drop(lease: object, wasUsed: boolean): void {
    if (wasUsed) this.#wasUsed = true;
    if (this.#kept === lease) this.#kept = undefined;
    else collected.unregister(lease);
  }

  /**
   * Called when a lease was garbage-collected without a release. If no other lease uses the hold, the hold is
   * no longer renewed.
   */
  forgotten(): void {
    this.#wasUsed = true;
    if (this.ended || !this.leave()) return;
    void this.heartbeat.stop(this);
    this.plan();
    warnForgotten(this.key);
  }

  /**
   * The token to pass to a release. Undefined if the store may have replaced this grant by a newer grant in
   * an answer that was lost.
   */
  get knownToken(): FencingToken | undefined {
    return this.#mayBeReplaced ? undefined : this.token;
  }

  /** Call when an attempt of the same owner had no answer. It may have replaced this grant. */
  mayBeReplaced(): void {
    this.#mayBeReplaced = true;
  }

  /** Whether the listener will still be notified of a loss. */
  hasLossListener(listener: LossListener): boolean {
    return this.#listeners?.has(listener) === true;
  }

  addLossListener(listener: LossListener): void {
    (this.#listeners ??= new Set()).add(listener);
  }

  removeLossListener(listener: LossListener): void {
    this.#listeners?.delete(listener);
  }

  lostError(reason: string): LeaseLostError {
    const failure = reason === EXPIRED ? this.failure : undefined;
    const why = failure === undefined ? reason : `${reason}, and ${failure.message}`;
    return new LeaseLostError(this.key, this.token, why, failure);
  }

  /**
   * Removes a user that has not used the key, and releases the hold if there is no other user. The `minHold`
   * then does not apply.
   */
  giveBack(): Promise<boolean> {
    this.markGivenBack();
    return this.leave() ? this.release() : Promise.resolve(false);
  }

  /**
   * Releases the hold. True if this call freed the key. Rejects if the store fails; the call can then be
   * repeated.
   */
  release(): Promise<boolean> {
    const { schedule, grants } = this.heartbeat;
    if (this.checkHeld()) {
      this.recordRelease = grants?.contention.releasing(this.key);
      if (this.reader === undefined) this.recordRelease?.();
      this.wasReleased();
      if (leaseChannels.released.hasSubscribers)
        leaseChannels.released.publish({ ...this.#message, held: schedule.now() - this.since });
    }
    // If the hold was lost only because another key of its lease was lost, the store may still have this
    // grant. So the grant is released. The heartbeat does not end a later grant of the same owner.
    const isOurs = this.lostReason === OTHER_LOST && schedule.now() < this.expiresAt;
    const mayBeStored = this.isReleased || isOurs || this.#mayBeStored;
    return mayBeStored ? this.heartbeat.end(this) : Promise.resolve(false);
  }

  /**
   * Frees the key in the store if the hold has expired, for a holder that did not release it. The next holder
   * sees that the key was abandoned.
   */
  takeBackExpired(): Promise<boolean> {
    return this.#mayBeStored ? this.heartbeat.takeBack(this) : Promise.resolve(false);
  }

  /**
   * Whether the store may still have the grant of this hold, after the local deadline. False if the owner is
   * stable, because the same owner may have another lease of the key by now. A reader is in its group until it
   * leaves the group, or until the group's lease expires.
   */
  get #mayBeStored(): boolean {
    const { lostReason } = this;
    if (this.reader !== undefined && lostReason === OTHER_LOST) return this.remaining <= 0;
    return lostReason === EXPIRED && !this.hasStableOwner;
  }

  /** See `KnownGrants.stableOwners`. False in shared mode, because each hold has a separate reader. */
  get hasStableOwner(): boolean {
    return this.reader === undefined && this.heartbeat.grants?.stableOwners === true;
  }

  announceGrant(waited: number): void {
    this.#count(COUNT.acquired);
    this.#count(COUNT.held);
    if (!leaseChannels.acquired.hasSubscribers) return;
    leaseChannels.acquired.publish({ ...this.#message, ttl: this.terms.ttl, waited });
  }

  announceRenewal(ttl: number): void {
    this.#count(COUNT.renewals);
    if (leaseChannels.renewed.hasSubscribers) leaseChannels.renewed.publish({ ...this.#message, ttl });
  }

  announceFailure(operation: 'renew' | 'release', error: LockError): void {
    this.#count(COUNT.failures);
    if (!leaseChannels.failed.hasSubscribers) return;
    leaseChannels.failed.publish({ ...this.#message, operation, error, remaining: this.remaining });
  }

  protected wasLost(reason: string, error = this.lostError(reason)): void {
    this.#count(COUNT.losses);
    this.heartbeat.lost(this);
    if (leaseChannels.lost.hasSubscribers) leaseChannels.lost.publish({ ...this.#message, reason });
    for (const listener of this.#listeners ?? []) listener.abort(error);
    if (this.reader !== undefined && (reason === EXPIRED || reason === OTHER_LOST)) this.#leaveAtDeadline();
  }

  /**
   * Removes a lost reader from its group when its own TTL expires, because other readers may renew the group's
   * lease for any length of time. Before that, the holder of the reader may still be working.
   */
  #leaveAtDeadline(): void {
    if (this.remaining > 0) this.heartbeat.schedule.set(this, this.expiresAt);
    else this.takeBackExpired().catch(() => undefined);
  }

  get #message(): LeaseMessage {
    return { key: this.key, token: this.token, holder: this.owner, threadId };
  }

  /** The time when the holder must be warned; Infinity for never. */
  get #warnAt(): number {
    const { expiresAt, failure } = this;
    const { warning, ttl, every } = this.terms;
    if (!warning || this.#warned) return Infinity;
    const at = expiresAt - warning.before;
    if (failure !== undefined || this.#renewals > 0) return at;
    // If another thread renews the lease, this thread does not know whether a renewal waits for an answer. So
    // the warning comes even without a failed renewal, but not before the renewal is due, at
    // `expiresAt - ttl + every`.
    return this.background === undefined ? Infinity : Math.max(at, expiresAt - ttl + every);
  }

  #warn(now: number): void {
    this.#warned = true;
    const { key, token, owner, expiresAt, failure } = this;
    try {
      this.terms.warning!.call({ key, token, holder: owner, remaining: expiresAt - now, cause: failure });
    } catch (error) {
      // The error is thrown again in a microtask, so that it is uncaught, like an error of an event listener.
      // The timer that called this method must continue with other leases.
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  #end(reason: string): void {
    this.#ended = reason;
    this.heartbeat.schedule.clear(this);
    this.#count(COUNT.held, -1);
  }

  #count(count: Count, by = 1): void {
    const { grants } = this.heartbeat;
    if (grants !== undefined) addCount(grants.counts, count, by);
  }

  /** The time when a timer renews the hold; Infinity for never. */
  get #renewsAt(): number {
    const { since, terms } = this;
    if (this.#renewals > 0 || this.#background !== undefined || this.users === 0) return Infinity;
    return this.#next - since >= terms.maxHold ? Infinity : this.#next;
  }

  /**
   * If the deadline has passed while a renewal has no answer, postpones the decision whether the hold is
   * lost. The event loop may have been blocked, and the answer may already be in a socket, because Node runs
   * timers before it reads sockets. So the decision is made after the event loop has turned. True if the
   * decision was postponed.
   */
  #postpones(now: number): boolean {
    if (!this.heartbeat.schedule.hasTimers || this.#renewals === 0 || now < this.expiresAt) return false;
    this.heartbeat.schedule.set(this, Infinity);
    if (this.#isPostponed) return true;
    this.#isPostponed = true;
    afterTurn(() => {
      this.#isPostponed = false;
      if (this.checkHeld()) this.plan();
    });
    return true;
  }
}

const collected = new HostFinalizationRegistry<Hold>((hold) => hold.forgotten());

function warnForgotten(key: string): void {
  warn(
    'STRIPELOCK_LEASE_FORGOTTEN',
    `the lease of ${quotedKeys([key])} was garbage-collected while held, so nobody can release it: ` +
      'it is not renewed any more, and ends with its TTL',
  );
}
