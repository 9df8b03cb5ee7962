import { awaitAbort, forgetAbort, type Abortable } from '../../common/abort.js';
import { leaseTimeout } from '../contract/errors.js';
import type { Lease } from '../hold/lease.js';
import { Schedule, type Due } from '../time/schedule.js';

/** The acquisitions of a manager that wait. They keep the process alive. */
export class Waits {
  /** In real time, whatever the manager's clock is. */
  readonly schedule = new Schedule(undefined, true);
  readonly #waiting = new Set<WaitingAcquisition>();

  start(acquisition: WaitingAcquisition): Promise<Lease> {
    this.#waiting.add(acquisition);
    acquisition.start();
    return acquisition.promise;
  }

  ended(acquisition: WaitingAcquisition): void {
    this.#waiting.delete(acquisition);
  }

  failAll(reason: unknown): void {
    for (const acquisition of [...this.#waiting]) acquisition.fail(reason);
  }
}

/** What an acquisition waits for, and how long. */
export interface Wait {
  readonly key: string;
  /** Milliseconds, above 0. */
  readonly timeout: number;
  readonly signal: AbortSignal | undefined;
  readonly waits: Waits;
}

/** An acquisition that waits. Its promise is settled once: by a grant, a failure, its timeout, an abort, or `fail`. */
export abstract class WaitingAcquisition implements Due, Abortable {
  readonly promise: Promise<Lease>;
  deadline = Infinity;
  place = -1;
  protected readonly key: string;
  protected settled = false;
  /** When its timeout expires, on the schedule's clock. */
  readonly endsAt: number;
  readonly #wait: Wait;
  #resolve!: (lease: Lease) => void;
  #reject!: (reason: unknown) => void;

  constructor(wait: Wait) {
    this.#wait = wait;
    this.key = wait.key;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const { schedule } = wait.waits;
    this.endsAt = schedule.now() + wait.timeout;
    schedule.set(this, this.endsAt);
    if (wait.signal) awaitAbort(wait.signal, this);
  }

  /** Milliseconds, above 0. */
  protected get timeout(): number {
    return this.#wait.timeout;
  }

  /** Called by the schedule: the timeout. */
  run(now: number): void {
    if (this.settled) return;
    if (now < this.endsAt) this.#wait.waits.schedule.set(this, this.endsAt);
    else this.timedOut(now - this.endsAt);
  }

  /** The timeout expired so many milliseconds ago. */
  protected timedOut(_late: number): void {
    this.failTimedOut();
  }

  protected failTimedOut(): void {
    this.fail(leaseTimeout([this.key], this.timeout, this.failure, this.earlierFailure));
  }

  /** Postpones the timeout, by no more than the timeout itself. */
  protected putOff(milliseconds: number): void {
    const { schedule } = this.#wait.waits;
    schedule.set(this, schedule.now() + Math.min(milliseconds, this.timeout));
  }

  /** The signal was aborted. */
  abort(reason: unknown): void {
    this.fail(reason);
  }

  fail(reason: unknown): void {
    if (this.#settle()) this.#reject(reason);
  }

  /** The error of the store's last answer; undefined if it did not fail. */
  protected get failure(): unknown {
    return undefined;
  }

  /** The store's error before that. */
  protected get earlierFailure(): unknown {
    return undefined;
  }

  /** Enters its queue. {@link Waits.start} calls this once `failAll` can find it. */
  abstract start(): void;

  /** False if it was already settled: then nobody takes the lease. */
  protected grant(lease: Lease): boolean {
    const granted = this.#settle();
    if (granted) this.#resolve(lease);
    return granted;
  }

  /** Leaves its queue. */
  protected abstract leave(): void;

  #settle(): boolean {
    if (this.settled) return false;
    this.settled = true;
    const { waits, signal } = this.#wait;
    waits.schedule.clear(this);
    if (signal) forgetAbort(signal, this);
    this.leave();
    waits.ended(this);
    return true;
  }
}
