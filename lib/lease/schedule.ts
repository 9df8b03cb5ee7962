import { DeadlineTimer, type Timed } from '../common/deadlines.js';
import { timerNow } from '../common/elapsed.js';
import { onAdvance, readClock, type Clock } from './contract/lease-store.js';

/** How often to read a clock of the caller's own, in milliseconds: its speed is unknown. */
export const FOREIGN_CLOCK_POLL = 100;

/** Entries that are due together may run for this many milliseconds before the event loop turns. */
const BURST = 10;

/** Something that is due at a certain time. */
export interface Due extends Timed {
  deadline: number;
  /** By how many milliseconds it may run early, together with others that are due. Default 0. */
  readonly slack?: number;
  /** Called when it is due, or due within the `slack` of another one, and no longer in the schedule. Must not throw. */
  run(now: number): void;
}

/** One timer for any number of entries that are due at some time of one clock. */
export class Schedule<T extends Due = Due> {
  readonly #clock: Clock | undefined;
  readonly #ownNow: () => number;
  readonly #keepAlive: boolean;
  readonly #entries: DeadlineTimer<T>;
  #stopListening: (() => void) | undefined;

  /**
   * `keepAlive`: whether entries keep the process alive. `ownNow`: the clock in milliseconds if none is given, as fast as
   * the timers; default `timerNow`.
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

  /** Whether timers alone decide when entries run: without a clock of the caller's own, which can be set. */
  get hasTimers(): boolean {
    return this.#clock === undefined;
  }

  now(): number {
    return this.#clock === undefined ? this.#ownNow() : readClock(this.#clock);
  }

  /** Moves the entry if it is scheduled already. With Infinity it is never due, but can keep the process alive. */
  set(entry: T, deadline: number): void {
    this.#entries.remove(entry);
    // A finite time that no timer reaches. An entry that runs too early schedules itself again.
    entry.deadline = Math.min(deadline, Number.MAX_SAFE_INTEGER);
    this.#entries.add(entry);
    if (this.#keepAlive) this.#entries.keepAlive(true);
    if (this.#clock !== undefined) this.#stopListening ??= onAdvance(this.#clock, () => this.#fire());
  }

  /** How many {@link entries} there are. */
  get size(): number {
    return this.#entries.size;
  }

  /** The scheduled entries, without the one that is currently running. */
  entries(): T[] {
    return this.#entries.toArray();
  }

  clear(entry: T): void {
    this.#entries.remove(entry);
    if (this.#entries.first === undefined) this.#stop();
  }

  /** Nothing is scheduled. The timer stays, since a needless call of it costs less than clearing and setting it. */
  #stop(): void {
    if (this.#keepAlive) this.#entries.keepAlive(false);
    this.#stopListening?.();
    this.#stopListening = undefined;
  }

  /**
   * Runs each entry that is due once, even if it schedules itself again, and those that are due within the `slack` of an
   * entry that runs. An entry that must not run so early schedules itself again.
   *
   * Thousands of entries that are due together would block the event loop. The rest stays due, and runs after the loop
   * has turned. But if a clock was set, all entries that are due by then run before the call that set it returns.
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
