import { isPermanent } from '../contract/errors.js';
import type { LeaseStore } from '../contract/lease-store.js';
import type { Backoff } from '../contract/options.js';
import type { Due, Schedule } from '../time/schedule.js';
import { WaitingAcquisition, type Wait } from './acquisition.js';
import type { Attempts } from './attempts.js';
import { listenForReleases, type ReleaseListener } from './hand-on.js';

/** Milliseconds: with less time left, nobody asks again. */
const SHORTEST_CHANCE = 10;
/** Milliseconds: a timer is later than this only if the event loop was blocked. */
const BLOCKED = 5;

/** What the queues of a manager share. */
interface Context {
  readonly store: LeaseStore;
  readonly backoff: Backoff;
  /** Keeps the process alive; in real time. */
  readonly schedule: Schedule;
  /** All acquisitions have the same owner, so one grant may follow another at once. */
  readonly stableOwners: boolean;
}

/**
 * The acquisitions of a manager that wait for keys of a store that must be asked: a queue for each key, first come,
 * first served. Only the head asks, again and again, with growing pauses, so thousands of waiters burden the store no
 * more than one. After a grant the next one becomes the head.
 */
export class PollingQueues {
  readonly #context: Context;
  readonly #queues = new Map<string, PollingQueue>();
  /** An acquisition that asks for the first time, while nobody else waits for its key. Most succeed, and need no queue. */
  #alone: PollingAcquisition | undefined;
  #aloneKey = '';

  constructor(context: Context) {
    this.#context = context;
  }

  join(key: string, waiter: PollingAcquisition): void {
    const queue = this.#queues.get(key);
    if (queue) {
      queue.waiters.add(waiter);
    } else if (this.#alone === undefined) {
      this.#alone = waiter;
      this.#aloneKey = key;
      waiter.attempt().then(
        (granted) => this.#answered(key, waiter, granted, undefined),
        (error: unknown) => this.#answered(key, waiter, false, error),
      );
    } else if (this.#aloneKey === key) {
      this.#open(key, this.#alone, true).waiters.add(waiter);
      this.#alone = undefined;
    } else {
      this.#open(key, waiter, false).run();
    }
  }

  leave(key: string, waiter: PollingAcquisition): void {
    if (waiter === this.#alone) this.#alone = undefined;
    else this.#queues.get(key)?.leave(waiter);
  }

  /** Whether an acquisition waits for the key. */
  isAwaited(key: string): boolean {
    return this.#queues.has(key);
  }

  /** The error of the store's last answer for the key, if it failed. */
  failureOf(key: string): unknown {
    return this.#queues.get(key)?.failure;
  }

  #open(key: string, first: PollingAcquisition, asks: boolean): PollingQueue {
    const queue = new PollingQueue(this.#context, key, () => this.#queues.delete(key), first, asks);
    this.#queues.set(key, queue);
    return queue;
  }

  /** The result for an acquisition that was alone when it asked. */
  #answered(key: string, waiter: PollingAcquisition, granted: boolean, failure: unknown): void {
    let queue = this.#queues.get(key);
    if (waiter === this.#alone) {
      this.#alone = undefined;
      queue = this.#open(key, waiter, true);
    }
    queue?.answered(waiter, granted, failure);
  }
}

/** The queue for one key. */
class PollingQueue implements Due, ReleaseListener {
  deadline = Infinity;
  place = -1;
  failure: unknown;
  readonly waiters = new Set<PollingAcquisition>();
  readonly #context: Context;
  readonly #key: string;
  readonly #ended: () => void;
  /** The one that is asking the store now. */
  #asking: PollingAcquisition | undefined;
  /** The next pause, in milliseconds, before jitter. */
  #step: number;
  /** Whether it was woken while it asked: the answer may be older than the release. */
  #woken = false;
  /** Since when the key has been handed on within this process. */
  #handingOnSince: number | undefined;
  #stopListening: (() => void) | undefined;

  /** `asks`: whether the first is already asking. */
  constructor(context: Context, key: string, ended: () => void, first: PollingAcquisition, asks: boolean) {
    this.#context = context;
    this.#key = key;
    this.#ended = ended;
    this.#step = context.backoff.initial;
    this.waiters.add(first);
    if (asks) this.#asking = first;
  }

  /** Has the head ask. Called by the schedule when a pause ends. */
  run(): void {
    const [head] = this.waiters;
    if (head === undefined) return;
    this.#asking = head;
    this.#woken = false;
    head.attempt().then(
      (granted) => this.answered(head, granted, undefined),
      (error: unknown) => this.answered(head, false, error),
    );
  }

  leave(waiter: PollingAcquisition): void {
    const [head] = this.waiters;
    if (!this.waiters.delete(waiter)) return;
    if (this.waiters.size === 0) {
      this.#end();
    } else if (waiter === this.#asking) {
      // It was granted, or does not wait for the answer any more, so the others need not wait for it either.
      this.#asking = undefined;
      this.#pause();
    } else if (waiter === head && this.#asking === undefined) {
      this.#context.schedule.set(this, Math.min(this.deadline, this.#lastChance()));
    }
  }

  /** The result of an attempt. */
  answered(waiter: PollingAcquisition, granted: boolean, failure: unknown): void {
    this.failure = failure;
    if (this.#asking === waiter) {
      this.#asking = undefined;
      this.#pause();
    } else if (this.waiters.size > 0 && ((granted && this.#context.stableOwners) || isPermanent(failure))) {
      // The store also grants the next one, which has the same owner; or refuses it, too, which it need not wait for.
      this.wake();
    }
  }

  /** The key may be free. */
  wake(): void {
    if (this.#asking !== undefined) {
      this.#woken = true;
      return;
    }
    this.#context.schedule.clear(this);
    this.#step = this.#context.backoff.initial;
    this.run();
  }

  /**
   * A lease of the key was released in this thread. Waiters of other processes do not hear of it. So when the key has
   * been handed on here for as long as their longest pause, this thread leaves them one such pause.
   */
  handOn(): void {
    const { backoff, schedule } = this.#context;
    const now = schedule.now();
    this.#handingOnSince ??= now;
    if (now - this.#handingOnSince < backoff.max) {
      this.wake();
      return;
    }
    this.#handingOnSince = undefined;
    this.#step = backoff.max;
    if (this.#asking === undefined) this.#pause();
  }

  /** If the head's timeout would come before the end of the pause, the pause leaves room for one more attempt. */
  #pause(): void {
    const { store, backoff, schedule } = this.#context;
    this.#stopListening ??= listenForReleases(store, this.#key, this);
    if (this.#woken) {
      this.#step = backoff.initial;
      this.run();
      return;
    }
    const length = this.#step * (1 - backoff.jitter * Math.random());
    this.#step = Math.min(this.#step * 2, backoff.max);
    schedule.set(this, Math.min(schedule.now() + length, this.#lastChance()));
  }

  /** One first pause before the head's timeout, or half of the time that is left if that pause would not fit. */
  #lastChance(): number {
    const [head] = this.waiters;
    const { backoff, schedule } = this.#context;
    const left = head!.endsAt - schedule.now();
    if (left > 2 * backoff.initial) return head!.endsAt - backoff.initial;
    return left > SHORTEST_CHANCE ? head!.endsAt - left / 2 : head!.endsAt;
  }

  #end(): void {
    this.#context.schedule.clear(this);
    this.#stopListening?.();
    this.#asking = undefined;
    this.#ended();
  }
}

/** Waits in the queue of its key, of which only the head asks the store. */
export class PollingAcquisition extends WaitingAcquisition {
  readonly #queues: PollingQueues;
  readonly #attempts: Attempts;
  #isPutOff = false;

  constructor(wait: Wait, queues: PollingQueues, attempts: Attempts) {
    super(wait);
    this.#queues = queues;
    this.#attempts = attempts;
  }

  start(): void {
    this.#queues.join(this.key, this);
  }

  /** Asks the store once. True if it was granted: then it has left the queue. Rejects if the store fails. */
  async attempt(): Promise<boolean> {
    let granted = false;
    try {
      granted = await this.#attempts.ask((lease) => this.grant(lease));
    } catch (error) {
      if (isPermanent(error)) this.fail(error);
      throw error;
    } finally {
      if (!granted && this.#isPutOff) this.failTimedOut();
    }
    return granted;
  }

  /** If the event loop was blocked, the answer may have arrived: it gets as much more time as the block lasted. */
  protected override timedOut(late: number): void {
    if (late >= BLOCKED && this.#attempts.asking && !this.#isPutOff) {
      this.#isPutOff = true;
      this.putOff(late);
    } else {
      this.failTimedOut();
    }
  }

  protected override get failure(): unknown {
    return this.#queues.failureOf(this.key);
  }

  protected override get earlierFailure(): unknown {
    return this.#attempts.failure;
  }

  protected leave(): void {
    this.#queues.leave(this.key, this);
    this.#attempts.end();
  }
}
