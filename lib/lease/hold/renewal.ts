import { storeFailure, type LeaseStoreError } from '../contract/errors.js';
import type { Backoff, LeaseTerms } from '../contract/options.js';

/** Milliseconds: a shorter time is not enough for a round trip. */
const SHORTEST_RETRY = 2;

/** What renewals need of the hold that they extend. */
export interface Renewable {
  readonly key: string;
  readonly owner: string;
  readonly token: bigint;
  readonly terms: LeaseTerms;
  /** The local deadline. */
  expiresAt: number;
  readonly ended: boolean;
  readonly released: boolean;
  readonly lostReason: string | undefined;
  look(): boolean;
  lose(reason: string): void;
  expire(): void;
  plan(renewal: number): void;
  freeExpired(): Promise<boolean>;
  /** Whether something else renews it now. */
  readonly renewsItself: boolean;
  announceRenewal(ttl: number): void;
  announceFailure(operation: 'renew', error: LeaseStoreError): void;
}

/** What renewals need of the manager. */
export interface RenewalContext {
  /** Asks the store. False if the owner does not hold it any more. `ttl`: as the store must keep it. */
  renew(hold: Renewable, ttl: number): Promise<boolean>;
  readonly backoff: Backoff;
  readonly schedule: { now(): number };
  /** How long the store must keep a lease whose holder counts on `ttl` milliseconds. */
  ttlInStore(ttl: number): number;
}

/** The renewals of a hold, both automatic and by hand. */
export class Renewal {
  readonly #hold: Renewable;
  readonly #context: RenewalContext;
  /** After an answer: when the next beat is due. After a failure: when to try again. Infinity for never. */
  #next = Infinity;
  #failures = 0;
  /** The error of the last renewal; undefined if it succeeded. */
  failure: LeaseStoreError | undefined;
  /** Whether the holder has been warned of the current failures. */
  #warned = false;
  /** One at a time, so that the last renewal that the store sees is the last one sent. */
  #underWay: Promise<boolean> | undefined = undefined;

  constructor(hold: Renewable, context: RenewalContext) {
    this.#hold = hold;
    this.#context = context;
  }

  /** See `Hold.renew`. */
  async renew(ttl: number): Promise<boolean> {
    const hold = this.#hold;
    while (this.#underWay) await this.#underWay.catch(() => undefined);
    if (!hold.look()) return false;
    const underWay = this.#send(ttl);
    this.#underWay = underWay;
    hold.plan(Infinity);
    try {
      return await underWay;
    } finally {
      this.#underWay = undefined;
      if (!hold.ended) hold.plan(this.#next);
    }
  }

  /** When to renew again. Infinity while a renewal is pending. */
  get next(): number {
    return this.#underWay ? Infinity : this.#next;
  }

  /** When to {@link warn}; Infinity for never. */
  get warnAt(): number {
    const { terms, expiresAt } = this.#hold;
    if (!terms.warning || this.#warned) return Infinity;
    const at = expiresAt - terms.warning.before;
    if (this.failure !== undefined || this.#underWay !== undefined) return at;
    // What renews it should have done so by then.
    return this.#hold.renewsItself ? Math.max(at, expiresAt - terms.ttl + terms.every) : Infinity;
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

  /** Something else renews it from now on. */
  started(): void {
    this.#next = Infinity;
  }

  /** Nothing else renews it any more. Returns when to renew it. */
  resume(): number {
    const { expiresAt, terms } = this.#hold;
    this.#next =
      this.failure === undefined ? expiresAt - terms.ttl + terms.every : this.#context.schedule.now();
    return this.#next;
  }

  /** Something else has renewed it. */
  succeeded(ttl: number): void {
    this.#clear();
    this.#hold.announceRenewal(ttl);
  }

  /** Something else has failed to renew it. */
  failed(failure: LeaseStoreError): void {
    this.failure = failure;
    this.#hold.announceFailure('renew', failure);
  }

  async #send(ttl: number): Promise<boolean> {
    const context = this.#context;
    const { schedule } = context;
    const hold = this.#hold;
    const before = schedule.now();
    let renewed: boolean;
    try {
      renewed = await context.renew(hold, context.ttlInStore(ttl));
    } catch (error) {
      const now = schedule.now();
      this.#next = now + this.#retryDelay(now);
      const failure = storeFailure('renew', hold.key, error);
      this.failed(failure);
      throw failure;
    }
    this.#clear();
    if (hold.released) return false;
    if (!renewed) {
      hold.lose('the store says that it expired or was taken');
      return false;
    }
    if (hold.lostReason === undefined && schedule.now() < before + ttl) {
      hold.expiresAt = before + ttl;
      // Whatever ttl it was extended by, the next beat comes when as much time is left as at any other beat.
      this.#next = hold.expiresAt - hold.terms.ttl + hold.terms.every;
      hold.announceRenewal(ttl);
      return true;
    }
    // The answer came too late to count. Nobody uses the extended lease, so others need not wait until it expires.
    hold.expire();
    await hold.freeExpired().catch(() => undefined);
    return false;
  }

  #clear(): void {
    this.#failures = 0;
    this.failure = undefined;
    this.#warned = false;
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
