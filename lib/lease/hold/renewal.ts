import { leaseChannels } from '../../common/diagnostics.js';
import { storeFailure, type LeaseStoreError } from '../contract/errors.js';
import type { Hold, HoldContext } from './hold.js';

/** Milliseconds: what is left then is too short for a round trip. */
const SHORTEST_RETRY = 2;

/** The renewals of a hold. */
export class Renewal {
  readonly #hold: Hold;
  readonly #context: HoldContext;
  /** The last beat's time, if it was answered; when to try again if it was not. Infinity for never. */
  #next = Infinity;
  #failures = 0;
  /** What the last one failed with, if it did. */
  failure: LeaseStoreError | undefined;
  /** Of these failures the holder has been warned. */
  #warned = false;
  /** The one under way: one at a time, so that the last that the store has seen is the last that was sent. */
  #underWay: Promise<boolean> | undefined = undefined;

  constructor(hold: Hold, context: HoldContext) {
    this.#hold = hold;
    this.#context = context;
  }

  /** See {@link Hold.renew}. */
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

  /** When to try again. */
  get next(): number {
    return this.#underWay ? Infinity : this.#next;
  }

  /** When to {@link warn}; Infinity for not at all. */
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
      // As that of an event listener. Who called has others to look after.
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  async #send(ttl: number): Promise<boolean> {
    const { store, schedule } = this.#context;
    const hold = this.#hold;
    const before = schedule.now();
    let renewed: boolean;
    try {
      renewed = await store.renew(hold.key, hold.owner, ttl);
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
      // However long it was extended for: when no more is left than at any other beat.
      this.#next = hold.expiresAt - hold.terms.ttl + hold.terms.every;
      if (leaseChannels.renewed.hasSubscribers) leaseChannels.renewed.publish({ ...hold.message(), ttl });
      return true;
    }
    // Too late to count. Nobody uses what the store has just extended: others need not wait for it to end.
    hold.expire();
    await hold.freeExpired().catch(() => undefined);
    return false;
  }

  /**
   * Infinity for one that is renewed by hand alone. Never more than half of the time that is left: an outage that ends
   * before the deadline costs nothing, and the nearer the deadline the sooner that is noticed.
   */
  #retryDelay(now: number): number {
    const { every } = this.#hold.terms;
    const { initial, max } = this.#context.backoff;
    if (every === Infinity) return Infinity;
    const half = Math.max((this.#hold.expiresAt - now) / 2, SHORTEST_RETRY);
    return Math.min(initial * 2 ** this.#failures++, max, every, half);
  }
}
