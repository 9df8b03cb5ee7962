import { DeadlineTimer, type Timed } from '../common/deadlines.js';
import { timerNow } from '../common/elapsed.js';
import { onAdvance, readClock, type Clock } from './contract/lease-store.js';

/**
 * The maximum number of milliseconds between two readings of a clock that the caller provides. Such a clock
 * can run at any speed, so no timer can be set for deadlines on this clock.
 */
export const FOREIGN_CLOCK_POLL = 100;

/** The time, in milliseconds, for which due entries run without a turn of the event loop. */
const BURST = 10;

/** An entry of a {@link Schedule}, to be run at its deadline. */
export interface Due extends Timed {
  deadline: number;
  /**
   * When this entry runs, the entries that are due at most this many milliseconds later also run. Default 0.
   */
  readonly slack?: number;
  /**
   * Called when the entry is due. The call may be early by up to the `slack` of another entry that runs. The
   * schedule removes the entry before the call. Must not throw.
   */
  run(now: number): void;
}

/** Runs any number of entries at their deadlines, on one clock. All entries share one timer. */
export class Schedule<T extends Due = Due> {
  readonly #clock: Clock | undefined;
  readonly #ownNow: () => number;
  readonly #keepAlive: boolean;
  readonly #entries: DeadlineTimer<T>;
  #stopListening: (() => void) | undefined;

  /**
   * `clock`: a clock that the caller provides; undefined for none. `ownNow`: returns the time in milliseconds
   * if there is no `clock`; this time must advance at the speed of timers. `keepAlive`: whether scheduled
   * entries keep the process alive.
   */
  constructor(clock: Clock | undefined, keepAlive: boolean, ownNow = timerNow) {
    this.#clock = clock;
    this.#ownNow = ownNow;
    this.#keepAlive = keepAlive;
    const longest = clock === undefined ? undefined : FOREIGN_CLOCK_POLL;
    this.#entries = new DeadlineTimer<T>(
      () => this.now(),
      () => this.#fire(),
      false,
      longest,
    );
  }

  /**
   * Whether only timers run entries. False if the caller provides a clock, because setting that clock also
   * runs entries.
   */
  get hasTimers(): boolean {
    return this.#clock === undefined;
  }

  now(): number {
    return this.#clock === undefined ? this.#ownNow() : readClock(this.#clock);
  }

  /**
   * Schedules the entry, or changes its deadline if it is already scheduled. With Infinity, the entry is
   * never due, but it can keep the process alive.
   */
  set(entry: T, deadline: number): void {
    this.#entries.remove(entry);
    // The heap ignores entries with the deadline Infinity. So Infinity is replaced by a finite time that is
    // never reached.
    entry.deadline = Math.min(deadline, Number.MAX_SAFE_INTEGER);
    this.#entries.add(entry);
    if (this.#keepAlive) this.#entries.keepAlive(true);
    if (this.#clock !== undefined) this.#stopListening ??= onAdvance(this.#clock, () => this.#fire());
  }

  /** The number of scheduled entries. */
  get size(): number {
    return this.#entries.size;
  }

  /** The scheduled entries, without the entry that is currently running. */
  entries(): T[] {
    return this.#entries.toArray();
  }

  clear(entry: T): void {
    this.#entries.remove(entry);
    if (this.#entries.first === undefined) this.#stop();
  }

  /**
   * Called when no entry is scheduled. The timer stays set, because a timer that fires needlessly costs less
   * than clearing the timer and setting it again.
   */
  #stop(): void {
    if (this.#keepAlive) this.#entries.keepAlive(false);
    this.#stopListening?.();
    this.#stopListening = undefined;
  }

  /**
   * Runs each due entry, but only once, even if it schedules itself again. After an entry has run, the
   * entries that are due within its `slack` also run. If this is too early for such an entry, it schedules
   * itself again.
   *
   * Thousands of entries that are due together would block the event loop. So after `BURST` milliseconds, the
   * other entries wait until the event loop has turned. There is no such limit if the caller provides a
   * clock: all due entries run before the call that sets the clock returns.
   */
  #fire(): void {
    const now = this.now();
    const end = this.#clock === undefined ? timerNow() + BURST : Infinity;
    const ran = new Set<T>();
    let until = now;
    for (;;) {
      const { first } = this.#entries;
      if (first === undefined || first.deadline > until || ran.has(first)) break;
      if (timerNow() >= end) break;
      until = Math.max(until, now + (first.slack ?? 0));
      ran.add(first);
      this.#entries.remove(first);
      first.run(now);
    }
    this.#entries.rearm();
    if (this.#entries.first === undefined) this.#stop();
  }
}
