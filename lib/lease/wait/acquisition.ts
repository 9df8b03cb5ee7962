import { awaitAbort, forgetAbort, type Abortable } from '../../common/abort.js';
import { leaseTimeout } from '../contract/errors.js';
import { onAdvance, type Clock } from '../contract/lease-store.js';
import type { Lease } from '../hold/lease.js';
import { FOREIGN_CLOCK_POLL, type Due, type Schedule } from '../time/schedule.js';
import type { Attempts } from './attempts.js';
import type { Lines, LineWaiter } from './polling-queue.js';
import type { Turns, TurnWaiter } from './table-queue.js';

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
  protected settled = false;
  /** On the schedule's clock. */
  readonly endsAt: number;
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
    else this.timeIsOver(now - this.endsAt);
  }

  /** Its time is over, so many milliseconds ago. */
  protected timeIsOver(_late: number): void {
    this.failOfTime();
  }

  protected failOfTime(): void {
    this.fail(leaseTimeout(this.key, this.#wait.timeout, this.failure, this.earlierFailure));
  }

  /** Puts the timeout off, no longer than that lasted. */
  protected putOff(milliseconds: number): void {
    const { schedule, timeout } = this.#wait;
    schedule.set(this, schedule.now() + Math.min(milliseconds, timeout));
  }

  /** The signal was aborted. */
  abort(reason: unknown): void {
    this.fail(reason);
  }

  fail(reason: unknown): void {
    if (this.#settle()) this.#reject(reason);
  }

  /** What the store failed with last. */
  protected get failure(): unknown {
    return undefined;
  }

  /** The same before that, if it was refused since. */
  protected get earlierFailure(): unknown {
    return undefined;
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

/** Milliseconds by which a timer is late only where the event loop was blocked. */
const BLOCKED = 5;

/** Waits in a line of its manager, which asks the store for all that wait for the key. */
export class PollingAcquisition extends WaitingAcquisition implements LineWaiter {
  readonly #lines: Lines;
  readonly #attempts: Attempts;
  #isPutOff = false;

  constructor(wait: Wait, ended: (waiting: WaitingAcquisition) => void, lines: Lines, attempts: Attempts) {
    super(wait, ended);
    this.#lines = lines;
    this.#attempts = attempts;
  }

  start(): void {
    this.#lines.join(this.key, this);
  }

  async attempt(): Promise<boolean> {
    let lease: Lease | undefined;
    try {
      lease = await this.#attempts.ask();
    } finally {
      if (lease === undefined && this.#isPutOff) this.failOfTime();
    }
    if (lease === undefined) return false;
    if (this.grant(lease)) return true;
    // Nobody waits for a late one any more.
    lease.release().catch(() => undefined);
    return false;
  }

  /** Where the event loop was blocked, the answer may have come: it has as long to be heard as that lasted. */
  protected override timeIsOver(late: number): void {
    if (late >= BLOCKED && this.#attempts.asking && !this.#isPutOff) {
      this.#isPutOff = true;
      this.putOff(late);
    } else {
      this.failOfTime();
    }
  }

  protected override get failure(): unknown {
    return this.#lines.failureOf(this.key);
  }

  protected override get earlierFailure(): unknown {
    return this.#attempts.failure;
  }

  protected leave(): void {
    this.#lines.leave(this.key, this);
    this.#attempts.end();
  }
}
