import { awaitAbort, forgetAbort, type Abortable } from '../abort.js';
import { leaseTimeout } from './errors.js';
import type { Lease } from './lease.js';
import { onAdvance, onRelease, type Clock, type LeaseStore } from './lease-store.js';
import type { Backoff } from './options.js';
import { FOREIGN_CLOCK_POLL, type Due, type Schedule } from './schedule.js';
import type { Turns, TurnWaiter } from './turns.js';

export interface Wait {
  readonly key: string;
  /** Milliseconds, above 0. */
  readonly timeout: number;
  readonly signal: AbortSignal | undefined;
  /** Keeps the process alive; in real time. */
  readonly schedule: Schedule;
}

/** An acquisition that waits. Its promise is settled once: by a grant, a failure, its timeout, an abort, or `fail`. */
export abstract class WaitingAcquisition implements Due, Abortable {
  readonly promise: Promise<Lease>;
  deadline = Infinity;
  place = -1;
  protected readonly key: string;
  /** What the store failed with last. */
  protected failure: unknown;
  protected settled = false;
  protected readonly endsAt: number;
  readonly #wait: Wait;
  readonly #ended: (waiting: WaitingAcquisition) => void;
  #resolve!: (lease: Lease) => void;
  #reject!: (reason: unknown) => void;

  constructor(wait: Wait, ended: (waiting: WaitingAcquisition) => void) {
    this.#wait = wait;
    this.#ended = ended;
    this.key = wait.key;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.endsAt = wait.schedule.now() + wait.timeout;
    wait.schedule.set(this, this.endsAt);
    if (wait.signal) awaitAbort(wait.signal, this);
  }

  /** The timeout. */
  run(now: number): void {
    if (this.settled) return;
    if (now < this.endsAt) this.#wait.schedule.set(this, this.endsAt);
    else this.fail(leaseTimeout(this.key, this.#wait.timeout, this.failure));
  }

  /** The signal was aborted. */
  abort(reason: unknown): void {
    this.fail(reason);
  }

  fail(reason: unknown): void {
    if (this.#settle()) this.#reject(reason);
  }

  /** To be called once it is known to whom it may have to be failed. */
  abstract start(): void;

  /** False if it was settled before. */
  protected grant(lease: Lease): boolean {
    const granted = this.#settle();
    if (granted) this.#resolve(lease);
    return granted;
  }

  /** Leaves what it waits in. */
  protected abstract leave(): void;

  #settle(): boolean {
    if (this.settled) return false;
    this.settled = true;
    this.#wait.schedule.clear(this);
    if (this.#wait.signal) forgetAbort(this.#wait.signal, this);
    this.leave();
    this.#ended(this);
    return true;
  }
}

/** Waits in the queue of a memory table, which calls it when its turn has come. */
export class QueuedAcquisition extends WaitingAcquisition implements TurnWaiter {
  readonly #turns: Turns;
  readonly #attempt: () => Lease | number;
  readonly #foreignClock: boolean;
  readonly #stopListening: () => void;

  /** `attempt`: a lease, or the milliseconds after which to try again. */
  constructor(
    wait: Wait,
    ended: (waiting: WaitingAcquisition) => void,
    turns: Turns,
    clock: Clock | undefined,
    attempt: () => Lease | number,
  ) {
    super(wait, ended);
    this.#turns = turns;
    this.#attempt = attempt;
    this.#foreignClock = clock !== undefined;
    this.#stopListening = onAdvance(clock, () => turns.serve(this.key));
  }

  start(): void {
    this.#turns.wait(this.key, this);
  }

  attempt(): number | undefined {
    if (this.settled) return undefined;
    try {
      const result = this.#attempt();
      if (typeof result === 'number') {
        return this.#foreignClock ? Math.min(result, FOREIGN_CLOCK_POLL) : result;
      }
      this.grant(result);
    } catch (error) {
      this.fail(error);
    }
    return undefined;
  }

  protected leave(): void {
    this.#stopListening();
    this.#turns.leave(this.key, this);
  }
}

/** Asks the store again and again, ever less often, until it grants; and at once when the store says that it may. */
export class PollingAcquisition extends WaitingAcquisition {
  readonly #store: LeaseStore;
  readonly #backoff: Backoff;
  readonly #schedule: Schedule;
  readonly #attempt: () => Promise<Lease | undefined>;
  #pause: { readonly entry: Due; readonly end: () => void } | undefined;
  /** Since the last pause began. */
  #woken = false;
  #stopListening: (() => void) | undefined;

  constructor(
    wait: Wait,
    ended: (waiting: WaitingAcquisition) => void,
    store: LeaseStore,
    backoff: Backoff,
    attempt: () => Promise<Lease | undefined>,
  ) {
    super(wait, ended);
    this.#store = store;
    this.#backoff = backoff;
    this.#schedule = wait.schedule;
    this.#attempt = attempt;
  }

  start(): void {
    void this.#poll();
  }

  protected leave(): void {
    this.#stopListening?.();
    this.#pause?.end();
  }

  /** Only once it has to wait. */
  #listen(): void {
    if (this.settled) return;
    this.#stopListening ??= onRelease(this.#store, this.key, () => {
      this.#woken = true;
      this.#pause?.end();
    });
  }

  /** The pause after this one. */
  #next(step: number): number {
    const next = this.#woken ? this.#backoff.initial : Math.min(step * 2, this.#backoff.max);
    this.#woken = false;
    return next;
  }

  /** Never rejects. */
  async #poll(): Promise<void> {
    for (let step = this.#backoff.initial; !this.settled; step = this.#next(step)) {
      try {
        const lease = await this.#attempt();
        // Nobody waits for a late one any more.
        if (lease && !this.grant(lease)) lease.release().catch(() => undefined);
        this.failure = undefined;
      } catch (error) {
        this.failure = error;
      }
      this.#listen();
      // Not at all where it was settled meanwhile.
      await this.#sleep(step * (1 - this.#backoff.jitter * Math.random()));
    }
  }

  /** Until then, or until this is settled. Where the timeout would come first, leaves room for one more attempt. */
  #sleep(milliseconds: number): Promise<void> {
    const now = this.#schedule.now();
    const left = this.endsAt - now;
    const last = left > this.#backoff.initial ? left - this.#backoff.initial : left;
    const until = Math.min(milliseconds, last);
    return new Promise((resolve) => {
      // Woken while it asked: the answer may be older.
      if (this.settled || this.#woken) {
        resolve();
        return;
      }
      const end = (): void => {
        this.#schedule.clear(entry);
        this.#pause = undefined;
        resolve();
      };
      const entry: Due = { deadline: Infinity, place: -1, run: end };
      this.#pause = { entry, end };
      this.#schedule.set(entry, now + until);
    });
  }
}
