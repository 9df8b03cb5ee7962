import { leaseChannels, type LeaseMessage } from '../../common/diagnostics.js';
import { storeFailure, type LeaseStoreError } from '../contract/errors.js';
import type { InfoLeaseStore } from '../contract/lease-store.js';
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
  message(): LeaseMessage;
  announceFailure(operation: 'renew', error: LeaseStoreError): void;
}

/** What renewals need of the manager. */
export interface RenewalContext {
  readonly store: Pick<InfoLeaseStore, 'renew'>;
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
  async renew(ttl: number, info?: string): Promise<boolean> {
    const hold = this.#hold;
    while (this.#underWay) await this.#underWay.catch(() => undefined);
    if (!hold.look()) return false;
    const underWay = this.#send(ttl, info);
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
    const inDanger = this.failure !== undefined || this.#underWay !== undefined;
    return terms.warning && inDanger && !this.#warned ? expiresAt - terms.warning.before : Infinity;
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

  async #send(ttl: number, info: string | undefined): Promise<boolean> {
    const context = this.#context;
    const { store, schedule } = context;
    const hold = this.#hold;
    const before = schedule.now();
    let renewed: boolean;
    try {
      const inStore = context.ttlInStore(ttl);
      renewed = await (info === undefined
        ? store.renew(hold.key, hold.owner, inStore)
        : store.renew(hold.key, hold.owner, inStore, info));
    } catch (error) {
      const now = schedule.now();
      this.#next = now + this.#retryDelay(now);
      this.failure = storeFailure('renew', hold.key, error);
      hold.announceFailure('renew', this.failure);
      throw this.failure;
    }
    this.#failures = 0;
    this.failure = undefined;
    this.#warned = false;
    if (hold.released) return false;
    if (!renewed) {
      hold.lose('the store says that it expired or was taken');
      return false;
    }
    if (hold.lostReason === undefined && schedule.now() < before + ttl) {
      hold.expiresAt = before + ttl;
      // Whatever ttl it was extended by, the next beat comes when as much time is left as at any other beat.
      this.#next = hold.expiresAt - hold.terms.ttl + hold.terms.every;
      if (leaseChannels.renewed.hasSubscribers) leaseChannels.renewed.publish({ ...hold.message(), ttl });
      return true;
    }
    // The answer came too late to count. Nobody uses the extended lease, so others need not wait until it expires.
    hold.expire();
    await hold.freeExpired().catch(() => undefined);
    return false;
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
