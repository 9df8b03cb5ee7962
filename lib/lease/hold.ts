import { threadId } from 'node:worker_threads';
import { leaseChannels, type LeaseMessage } from '../common/diagnostics.js';
import { quotedKeys, type LockError } from '../common/errors.js';
import { afterTurn, HostFinalizationRegistry, queueMicrotask } from '../common/host.js';
import { warn } from '../common/warnings.js';
import { LeaseLostError } from './contract/errors.js';
import type { FencingToken } from './contract/lease-store.js';
import type { Backoff, LeaseTerms } from './contract/options.js';
import type { Heartbeat } from './heartbeat.js';
import type { Due } from './schedule.js';

/** Notified when a hold is lost: an AbortController, or the other holds of a lease. */
export interface LossListener {
  abort(error: LeaseLostError): void;
}

/** The reason if a hold was lost only because it expired. */
export const EXPIRED = 'it expired';
/** The reason if a hold ended because another hold of its lease was lost. */
export const OTHER_LOST = 'the lease of another of its keys was lost';
/** A renewal may be sent early by this part of the time between two renewals, so that it can go together with others. */
const EARLY = 10;
/** Milliseconds: a shorter time is not enough for a round trip. */
const SHORTEST_RETRY = 2;

/** The reason if its last holder has released it. */
const RELEASED = 'it was released';

/** A local deadline, in milliseconds. */
export interface LocalDeadline {
  time: number;
}

/** The renewing thread, for a hold that it renews, with the deadline that this thread has last set. Nothing here may throw. */
export interface Background extends LocalDeadline {
  /** As {@link Heartbeat.renew}. */
  renew(ttl: number, info?: string): Promise<boolean>;
  /** Stops its renewals. Resolves once everything that it has sent is answered. */
  end(): Promise<void>;
}

/** A key that was granted. */
export interface Grant {
  readonly key: string;
  /** The key in the store, which differs for permits. */
  readonly name: string;
  /** The owner as the store knows it. */
  readonly owner: string;
  readonly terms: LeaseTerms;
  readonly token: FencingToken;
  /** The time of the grant, on the heartbeat's clock, like all times here. */
  readonly since: number;
}

/**
 * A key that was granted, and that a heartbeat renews: its state, its local deadline and the time of its next renewal. The
 * deadline counts from the moment before the last answered request was sent, so it is never later than the store's. Its state is
 *
 *   held       its local deadline is ahead; if the last renewal failed, it is lost at the deadline unless a retry succeeds
 *   lost       the deadline has passed, or the store has said so, or another grant has replaced it
 *   released   its last user has released it
 *
 * It never leaves the latter two. Leases of the manager's thread use it. If another thread renews it, that thread has a separate
 * hold of the grant, with the same deadline, which only renews.
 */
export class Hold implements Due, Grant {
  readonly key: string;
  readonly name: string;
  readonly owner: string;
  readonly terms: LeaseTerms;
  readonly token: FencingToken;
  readonly since: number;
  /** When the schedule runs it next: to renew it, to warn its holder, or because it expires. */
  deadline = Infinity;
  place = -1;
  readonly heartbeat: Heartbeat;
  /** Why it was lost, or {@link RELEASED}. */
  #ended: string | undefined;
  #local: LocalDeadline;
  #failure: LockError | undefined;
  /** How many renewals have failed in a row. */
  #failures = 0;
  /** When the next renewal is due; Infinity for never. */
  #next: number;
  /** How many renewals have no answer yet, sent or not. */
  #renewals = 0;
  #background: Background | undefined;
  #isPostponed = false;

  #minHold: number;
  #mayBeReplaced = false;
  #users = 0;
  /**
   * The lease, until the first renewal. Only then is it registered with the garbage collector, because registering costs half as
   * much as an acquisition.
   */
  #kept: object | undefined;
  #wasRenewed = false;
  #listeners: Set<LossListener> | undefined;
  /** Whether the holder has been warned of the current failures. */
  #warned = false;

  /** The schedule does not have it yet. */
  constructor(heartbeat: Heartbeat, grant: Grant, local?: LocalDeadline) {
    const { terms, since } = grant;
    this.heartbeat = heartbeat;
    this.key = grant.key;
    this.name = grant.name;
    this.owner = grant.owner;
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

  /** A key that has ended must not appear to be held again. */
  set expiresAt(time: number) {
    if (!this.ended) this.#local.time = time;
  }

  get ended(): boolean {
    return this.#ended !== undefined;
  }

  get isReleased(): boolean {
    return this.#ended === RELEASED;
  }

  /** Undefined unless it is lost. */
  get lostReason(): string | undefined {
    return this.isReleased ? undefined : this.#ended;
  }

  /** The error of the last renewal; undefined if that succeeded. */
  get failure(): LockError | undefined {
    return this.#failure;
  }

  /** The thread that renews it, if that is not this one. */
  get background(): Background | undefined {
    return this.#background;
  }

  /** From now on that thread renews it. */
  attach(background: Background): void {
    this.#background = background;
    this.#local = background;
  }

  /** Resolves when no other thread renews it any more. */
  async detach(): Promise<void> {
    const background = this.#background;
    if (background === undefined) return;
    await background.end();
    this.#background = undefined;
    // The last deadline that the other thread has set.
    if (this.#local === background) this.#local = { time: background.time };
  }

  /** This thread renews it in place of the one that it is detached from. */
  async takeOver(): Promise<void> {
    const { ttl, every } = this.terms;
    this.#next = this.#failure !== undefined ? this.heartbeat.schedule.now() : this.expiresAt - ttl + every;
    await this.detach();
    if (!this.ended) this.plan();
  }

  /** Whether it is held now. Reads the clock, so that late timers do not matter. */
  checkHeld(): boolean {
    if (this.ended) return false;
    if (this.heartbeat.schedule.now() < this.expiresAt) return true;
    this.lose(EXPIRED);
    return false;
  }

  /** `error`: of the key that was lost first. */
  lose(reason: string, error?: LeaseLostError): void {
    if (this.ended) return;
    this.#end(reason);
    this.wasLost(reason, error);
  }

  /** No code uses it any more: no renewal follows. */
  protected wasReleased(): void {
    this.#end(RELEASED);
  }

  /** It stays in the schedule while the renewal waits for earlier operations: it may expire, or its manager may be closed. */
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

  /** A renewal was answered in time: it is held until then. Whatever its time, as much is left at the next beat as at others. */
  extended(until: number, ttl: number): void {
    this.expiresAt = until;
    this.#next = until - this.terms.ttl + this.terms.every;
    this.announceRenewal(ttl);
  }

  /** The store has answered a renewal: with yes or no, but without an error. */
  answered(): void {
    this.#failures = 0;
    this.#failure = undefined;
    this.#warned = false;
    this.#wasRenewed = true;
    const kept = this.#kept;
    this.#kept = undefined;
    if (kept !== undefined) this.keep(kept);
  }

  /** A renewal has failed. */
  failed(failure: LockError): void {
    this.#failure = failure;
    this.announceFailure('renew', failure);
  }

  /**
   * After a failure. Never for a lease that is renewed by hand only. The pause is never more than half of the time that is left.
   * So an outage that ends before the deadline costs nothing, and the nearer the deadline, the sooner its end is noticed.
   */
  retryBy({ initial, max }: Backoff): void {
    const { every } = this.terms;
    if (every === Infinity) return;
    const now = this.heartbeat.schedule.now();
    const half = Math.max((this.expiresAt - now) / 2, SHORTEST_RETRY);
    this.#next = now + Math.min(initial * 2 ** this.#failures++, max, every, half);
  }

  /** See {@link Due}. A retry has its own pauses. */
  get slack(): number {
    return this.#failures === 0 && this.#renewsAt < this.expiresAt ? this.terms.every / EARLY : 0;
  }

  /** Schedules it for its renewal, or for the time when it expires, or for its warning; or for `latest`, if that is earlier. */
  plan(latest = Infinity): void {
    this.heartbeat.schedule.set(this, Math.min(this.#renewsAt, this.expiresAt, this.#warnAt, latest));
  }

  /** Called by the schedule. */
  run(now: number): void {
    if (this.#postpones(now) || !this.checkHeld()) return;
    if (now >= this.#warnAt) this.#warn(now);
    if (this.ended) return;
    if (this.#renewsAt - this.slack > now) {
      this.plan();
      return;
    }
    // Failures of the store are retried until the deadline, and then the lease is lost. No other code needs the error.
    this.heartbeat.renew(this, this.terms.ttl).catch(() => undefined);
  }

  /** Milliseconds until the local deadline. */
  get remaining(): number {
    return this.expiresAt - this.heartbeat.schedule.now();
  }

  /** How many milliseconds the store must keep the key taken after a release; 0 for none. */
  get minHoldLeft(): number {
    const minHold = this.#minHold;
    if (minHold === 0) return 0;
    return Math.min(Math.max(0, Math.ceil(this.since + minHold - this.heartbeat.schedule.now())), minHold);
  }

  /** Drops the `minHold` of a hold whose only user never used it. */
  skipMinHold(): void {
    if (this.users <= 1) this.#minHold = 0;
  }

  /** How many leases, and acquisitions that have no lease yet, use it. */
  get users(): number {
    return this.#users;
  }

  join(): void {
    this.#users++;
  }

  /** True if the last user has left. */
  leave(): boolean {
    return --this.#users === 0;
  }

  /** Notices if the lease is garbage-collected, until {@link drop}. */
  keep(lease: object): void {
    if (this.#kept === undefined && !this.#wasRenewed) this.#kept = lease;
    else collected.register(lease, this, lease);
  }

  /** The lease was released. */
  drop(lease: object): void {
    if (this.#kept === lease) this.#kept = undefined;
    else collected.unregister(lease);
  }

  /** A lease was garbage-collected, so no code can release it. Others that share the hold continue. */
  forgotten(): void {
    if (this.ended || !this.leave()) return;
    void this.heartbeat.stop(this);
    this.plan();
    warnForgotten(this.key);
  }

  /** Whether its last user has left. It is not renewed any more. */
  get unused(): boolean {
    return this.#users === 0;
  }

  /** The token that a release names. Undefined if the store may have replaced the grant by a newer one, whose answer was lost. */
  get knownToken(): FencingToken | undefined {
    return this.#mayBeReplaced ? undefined : this.token;
  }

  mayBeReplaced(): void {
    this.#mayBeReplaced = true;
  }

  /**
   * Call it when the same owner asks for the key again. A grant would then replace the grant of this hold, even if its answer is
   * lost, and last until `until`. Returns a function to call if nothing was granted.
   */
  mayEndAt(until: number): () => void {
    const { expiresAt, deadline } = this;
    const { schedule } = this.heartbeat;
    if (this.ended || expiresAt <= until) return () => undefined;
    const earlier = Math.min(deadline, until);
    this.expiresAt = until;
    schedule.set(this, earlier);
    return () => {
      if (this.ended || this.expiresAt !== until) return;
      this.expiresAt = expiresAt;
      if (this.deadline === earlier) schedule.set(this, deadline);
    };
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

  /** Releases it for a caller who did not get to use it, whatever its `minHold`. */
  giveBack(): Promise<boolean> {
    this.skipMinHold();
    return this.leave() ? this.release() : Promise.resolve(false);
  }

  /** True if this call freed it. Rejects with a LeaseStoreError; then it can be called again. */
  release(): Promise<boolean> {
    const { schedule } = this.heartbeat;
    if (this.checkHeld()) {
      this.wasReleased();
      if (leaseChannels.released.hasSubscribers)
        leaseChannels.released.publish({ ...this.#message, held: schedule.now() - this.since });
    }
    // If another key of the lease was lost and this one has not expired, the store may still have this grant. The heartbeat ends
    // only this grant, and no later one of the same owner.
    const isOurs = this.lostReason === OTHER_LOST && schedule.now() < this.expiresAt;
    return this.isReleased || isOurs ? this.heartbeat.end(this) : this.freeExpired();
  }

  /** A stable owner may have another lease of the key by now, so its lost lease is left to expire. */
  freeExpired(): Promise<boolean> {
    const { heartbeat } = this;
    if (this.lostReason !== EXPIRED || heartbeat.stableOwners) return Promise.resolve(false);
    return heartbeat.end(this);
  }

  announceGrant(waited: number): void {
    if (!leaseChannels.acquired.hasSubscribers) return;
    leaseChannels.acquired.publish({ ...this.#message, ttl: this.terms.ttl, waited });
  }

  announceRenewal(ttl: number): void {
    if (leaseChannels.renewed.hasSubscribers) leaseChannels.renewed.publish({ ...this.#message, ttl });
  }

  announceFailure(operation: 'renew' | 'release', error: LockError): void {
    if (!leaseChannels.failed.hasSubscribers) return;
    leaseChannels.failed.publish({ ...this.#message, operation, error, remaining: this.remaining });
  }

  protected wasLost(reason: string, error = this.lostError(reason)): void {
    this.heartbeat.lost(this);
    if (leaseChannels.lost.hasSubscribers) leaseChannels.lost.publish({ ...this.#message, reason });
    for (const listener of this.#listeners ?? []) listener.abort(error);
  }

  get #message(): LeaseMessage {
    return { key: this.key, token: this.token, holder: this.owner, threadId };
  }

  /** When to warn its holder; Infinity for never. */
  get #warnAt(): number {
    const { expiresAt, failure } = this;
    const { warning, ttl, every } = this.terms;
    if (!warning || this.#warned) return Infinity;
    const at = expiresAt - warning.before;
    if (failure !== undefined || this.#renewals > 0) return at;
    // By the later of these times, the renewing thread should have renewed the lease.
    return this.background === undefined ? Infinity : Math.max(at, expiresAt - ttl + every);
  }

  #warn(now: number): void {
    this.#warned = true;
    const { key, token, owner, expiresAt, failure } = this;
    try {
      this.terms.warning!.call({ key, token, holder: owner, remaining: expiresAt - now, cause: failure });
    } catch (error) {
      // Uncaught, like an error of an event listener. The timer that called this serves other leases, too.
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  #end(reason: string): void {
    this.#ended = reason;
    this.heartbeat.schedule.clear(this);
  }

  /** When a timer renews it; Infinity for never. */
  get #renewsAt(): number {
    const { since, terms } = this;
    if (this.#renewals > 0 || this.#background !== undefined || this.unused) return Infinity;
    return this.#next - since >= terms.maxHold ? Infinity : this.#next;
  }

  /**
   * Whether it has expired while a renewal has no answer yet. If the event loop was blocked, the answer may have arrived, and
   * Node runs timers before it reads sockets. So the verdict waits until the event loop has turned.
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
