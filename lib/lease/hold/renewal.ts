import type { LockError } from '../../common/errors.js';
import { afterTurn, queueMicrotask } from '../../common/host.js';
import { storeFailure } from '../contract/errors.js';
import type { Hold, HoldContext } from './hold.js';

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
  /** What keeps the hold while the event loop is blocked. */
  #background: Background | undefined;
  /** One at a time, so that the last renewal that the store sees is the last one sent. */
  #underWay: Promise<boolean> | undefined = undefined;

  constructor(hold: Hold, context: HoldContext) {
    this.#hold = hold;
    this.#context = context;
  }

  /** See `Hold.renew`. */
  async renew(ttl: number, info?: string): Promise<boolean> {
    const hold = this.#hold;
    // The other thread knows nothing of infos.
    if (this.delegated && info === undefined) return this.#background!.renew(ttl);
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

  /**
   * Whether the verdict about a hold must wait until the event loop has turned: its time is over, and a renewal has no
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

  /** Resolves when the store has answered everything. To be called when the hold has ended: it sends nothing more then. */
  async settled(): Promise<void> {
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
    return this.delegated ? Math.max(at, expiresAt - terms.ttl + terms.every) : Infinity;
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

  /** Whether another thread renews it. */
  get delegated(): boolean {
    return this.#background?.renews === true;
  }

  /** See {@link Background.deadline}. */
  get deadline(): number | undefined {
    return this.#background?.deadline;
  }

  /** See {@link Background.recover}. */
  recover(): boolean {
    return this.#background?.recover() === true;
  }

  /** To be called at most once, with a hold that is held. */
  attach(background: Background): void {
    this.#background = background;
  }

  /** See {@link Background.end}. The hold still knows the deadline that was achieved. */
  async end(): Promise<void> {
    await this.#background?.end();
  }

  /** From now on the event loop alone can renew it. Resolves when nothing else can reach the store any more. */
  async detach(): Promise<void> {
    const background = this.#background;
    if (background === undefined) return;
    const { deadline } = background;
    this.#background = undefined;
    if (deadline !== undefined) this.#hold.expiresAt = deadline;
    await background.end();
  }

  /** The same, and the event loop renews it from now on. */
  async takeOver(): Promise<void> {
    const hold = this.#hold;
    const ending = this.detach();
    const { expiresAt, terms, state } = hold;
    this.#next = state === 'unsure' ? this.#context.schedule.now() : expiresAt - terms.ttl + terms.every;
    if (!hold.ended) hold.plan(this.#next);
    await ending;
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

  async #send(ttl: number, info?: string): Promise<boolean> {
    const context = this.#context;
    const { schedule } = context;
    const hold = this.#hold;
    const before = schedule.now();
    let renewed: boolean;
    try {
      renewed = await context.renew(hold, context.ttlInStore(ttl), info);
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
    if (!hold.ended && schedule.now() < before + ttl) {
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
  renew(ttl: number): Promise<boolean>;
  /** From now on it extends nothing. Resolves when nothing that it has sent can reach the store any more. */
  end(): Promise<void>;
}
