import { onRelease, type LeaseStore } from '../contract/lease-store.js';
import type { Backoff } from '../contract/options.js';
import type { Due, Schedule } from '../time/schedule.js';

/** Milliseconds: where less is left, nobody asks again. */
const SHORTEST_CHANCE = 10;

/** An acquisition that waits in a line. */
export interface LineWaiter {
  /** On the schedule's clock. */
  readonly endsAt: number;
  /** Asks the store once. True if it was granted: then it has left the line. Rejects where the store fails. */
  attempt(): Promise<boolean>;
}

/** What lines share. */
interface Context {
  readonly store: LeaseStore;
  readonly backoff: Backoff;
  /** Keeps the process alive; in real time. */
  readonly schedule: Schedule;
  /** Whether one grant may be followed by another at once, since they have the same owner. */
  readonly stableOwners: boolean;
}

/**
 * The acquisitions of a manager that wait for keys of a store which has to be asked: a line for each key, first come,
 * first served. Only its first asks, again and again, ever less often; so that thousands who wait are as little trouble
 * to the store as one, and one who is served is followed by the next.
 */
export class Lines {
  readonly #context: Context;
  readonly #lines = new Map<string, Line>();
  /** Asks for the first time, and nobody else waits for its key: most are granted then, and need no line. */
  #alone: LineWaiter | undefined;
  #aloneKey = '';

  constructor(context: Context) {
    this.#context = context;
  }

  join(key: string, waiter: LineWaiter): void {
    const line = this.#lines.get(key);
    if (line) {
      line.waiters.add(waiter);
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

  leave(key: string, waiter: LineWaiter): void {
    if (waiter === this.#alone) this.#alone = undefined;
    else this.#lines.get(key)?.leave(waiter);
  }

  /** What the store failed with when it was last asked for the key, if it failed. */
  failureOf(key: string): unknown {
    return this.#lines.get(key)?.failure;
  }

  #open(key: string, first: LineWaiter, asks: boolean): Line {
    const line = new Line(this.#context, key, () => this.#lines.delete(key), first, asks);
    this.#lines.set(key, line);
    return line;
  }

  /** Of one that was alone when it asked. */
  #answered(key: string, waiter: LineWaiter, granted: boolean, failure: unknown): void {
    let line = this.#lines.get(key);
    if (waiter === this.#alone) {
      this.#alone = undefined;
      line = this.#open(key, waiter, true);
    }
    line?.answered(waiter, granted, failure);
  }
}

class Line implements Due {
  deadline = Infinity;
  place = -1;
  failure: unknown;
  readonly waiters = new Set<LineWaiter>();
  readonly #context: Context;
  readonly #key: string;
  readonly #ended: () => void;
  /** Who is asking just now. */
  #asking: LineWaiter | undefined;
  /** The next pause, in milliseconds, before jitter. */
  #step: number;
  /** While it asked: the answer may be older. */
  #woken = false;
  /** Since when the key has been handed on within this process. */
  #handingOnSince: number | undefined;
  #stopListening: (() => void) | undefined;

  /** `asks`: the first is asking already. */
  constructor(context: Context, key: string, ended: () => void, first: LineWaiter, asks: boolean) {
    this.#context = context;
    this.#key = key;
    this.#ended = ended;
    this.#step = context.backoff.initial;
    this.waiters.add(first);
    if (asks) this.#asking = first;
  }

  /** Has the first ask. Called by the schedule when a pause is over. */
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

  leave(waiter: LineWaiter): void {
    const [head] = this.waiters;
    if (!this.waiters.delete(waiter)) return;
    if (this.waiters.size === 0) {
      this.#end();
    } else if (waiter === this.#asking) {
      // It was granted, or does not wait for the answer any more: nor need the others.
      this.#asking = undefined;
      this.#pause();
    } else if (waiter === head && this.#asking === undefined) {
      this.#context.schedule.set(this, Math.min(this.deadline, this.#lastChance()));
    }
  }

  /** What came of an attempt. */
  answered(waiter: LineWaiter, granted: boolean, failure: unknown): void {
    this.failure = failure;
    if (this.#asking === waiter) {
      this.#asking = undefined;
      this.#pause();
    } else if (granted && this.#context.stableOwners && this.waiters.size > 0) {
      // What its owner was granted, the next of the same owner is.
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
   * A lease of the key was released in this process. Those who wait in others hear nothing of it: where the key has been
   * handed on in this one for as long as their longest pause, one such pause is left to them.
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

  /** Where the first one's timeout would come before its end, leaves room for one more attempt. */
  #pause(): void {
    const { backoff, schedule } = this.#context;
    this.#stopListening ??= this.#listen();
    if (this.#woken) {
      this.#step = backoff.initial;
      this.run();
      return;
    }
    const length = this.#step * (1 - backoff.jitter * Math.random());
    this.#step = Math.min(this.#step * 2, backoff.max);
    schedule.set(this, Math.min(schedule.now() + length, this.#lastChance()));
  }

  /** Half of the time that is left, where a whole first pause would leave no room. */
  #lastChance(): number {
    const [head] = this.waiters;
    const { backoff, schedule } = this.#context;
    const left = head!.endsAt - schedule.now();
    if (left > 2 * backoff.initial) return head!.endsAt - backoff.initial;
    return left > SHORTEST_CHANCE ? head!.endsAt - left / 2 : head!.endsAt;
  }

  #listen(): () => void {
    const { store } = this.#context;
    return onRelease(store, this.#key, () => this.wake()) ?? listenHere(store, this.#key, this);
  }

  #end(): void {
    this.#context.schedule.clear(this);
    this.#stopListening?.();
    this.#asking = undefined;
    this.#ended();
  }
}

/** Of stores that do not hear of releases: the lines of this thread, by key, in the order of their turns. */
const linesHere = new WeakMap<LeaseStore, Map<string, Set<Line>>>();

function listenHere(store: LeaseStore, key: string, line: Line): () => void {
  let ofStore = linesHere.get(store);
  if (!ofStore) linesHere.set(store, (ofStore = new Map<string, Set<Line>>()));
  let ofKey = ofStore.get(key);
  if (!ofKey) ofStore.set(key, (ofKey = new Set()));
  ofKey.add(line);
  return () => {
    ofKey.delete(line);
    if (ofKey.size === 0 && ofStore.get(key) === ofKey) ofStore.delete(key);
  };
}

/** A manager of this thread has released a lease of the key. */
export function handOn(store: LeaseStore, key: string): void {
  const lines = linesHere.get(store)?.get(key);
  if (lines === undefined) return;
  const [first] = lines;
  lines.delete(first!);
  lines.add(first!);
  first!.handOn();
}
