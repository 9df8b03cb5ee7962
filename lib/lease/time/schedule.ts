// The global of this name is a getter, which costs more than the reading.
import { performance } from 'node:perf_hooks';
import { Deadlines, type Timed } from '../../common/deadlines.js';
import { onAdvance, readClock, type Clock } from '../contract/lease-store.js';

/** The longest delay of a timer, in milliseconds: longer ones fire at once. */
const LONGEST_DELAY = 2 ** 31 - 1;
/** How often to look at a clock that is not the timers' own, in milliseconds: nobody says how fast it runs. */
export const FOREIGN_CLOCK_POLL = 100;

/** Milliseconds that what is due together may take before the event loop turns. */
const BURST = 10;
/** What is looked at in one go: more takes too long to put back. */
const BATCH = 1000;

/** Something that is due at a time. */
export interface Due extends Timed {
  deadline: number;
  /** Its time has come; it is not in the schedule any more. Must not throw. */
  run(now: number): void;
}

/** One timer for any number of things that are due at some time of one clock. */
export class Schedule<T extends Due = Due> {
  readonly #clock: Clock | undefined;
  readonly #keepAlive: boolean;
  readonly #due = new Deadlines<T>();
  #timer: NodeJS.Timeout | undefined;
  /** What the timer was set for, on the clock. */
  #timerDue = Infinity;
  #stopListening: (() => void) | undefined;

  /** Without a clock, that of `performance.now()`. `keepAlive`: whether what is scheduled keeps the process alive. */
  constructor(clock: Clock | undefined, keepAlive: boolean) {
    this.#clock = clock;
    this.#keepAlive = keepAlive;
  }

  now(): number {
    return this.#clock === undefined ? performance.now() : readClock(this.#clock);
  }

  /** Moves it where it is scheduled already. Infinity counts as scheduled only for keeping the process alive. */
  set(entry: T, deadline: number): void {
    this.#due.remove(entry);
    // Further off than any timer reaches: who is run too early then schedules itself again.
    entry.deadline = Math.min(deadline, Number.MAX_SAFE_INTEGER);
    this.add(entry);
  }

  /** The same for one that is not scheduled, by the deadline that it has: finite. */
  add(entry: T): void {
    this.#due.add(entry);
    // So it is where there is no timer.
    if (entry.deadline < this.#timerDue) this.#arm();
    else if (this.#keepAlive) this.#timer!.ref();
  }

  /** What is scheduled; not what is running just now. */
  entries(): T[] {
    return this.#due.toArray();
  }

  clear(entry: T): void {
    // It may be about to be run.
    if (entry.place < 0) entry.deadline = Infinity;
    this.#due.remove(entry);
    if (this.#due.first === undefined) this.#rest();
  }

  /** Nothing is scheduled. */
  #rest(): void {
    // It may as well come for nothing, if it holds nothing alive: setting and clearing timers costs more.
    if (this.#keepAlive) this.#timer?.unref();
    this.#stopListening?.();
    this.#stopListening = undefined;
  }

  #arm(): void {
    const first = this.#due.first;
    clearTimeout(this.#timer);
    if (first === undefined) {
      this.#disarm();
      return;
    }
    this.#timerDue = first.deadline;
    const longest = this.#clock === undefined ? LONGEST_DELAY : FOREIGN_CLOCK_POLL;
    // Whole milliseconds up, so that it does not come early only to be set again.
    const delay = Math.max(0, Math.min(Math.ceil(first.deadline - this.now()), longest));
    this.#timer = setTimeout(() => this.#fire(), delay);
    if (!this.#keepAlive) this.#timer.unref();
    this.#stopListening ??= onAdvance(this.#clock, () => this.#fire());
  }

  #disarm(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#timerDue = Infinity;
  }

  #fire(): void {
    const now = this.now();
    // Those that are due now, each once, however they schedule themselves again.
    const due: T[] = [];
    const most = this.#clock === undefined ? BATCH : Infinity;
    while (due.length < most) {
      const { first } = this.#due;
      if (first === undefined || first.deadline > now) break;
      this.#due.remove(first);
      due.push(first);
    }
    this.#disarm();
    this.#run(due, now);
    if (this.#timer === undefined) this.#arm();
    if (this.#due.first === undefined) {
      this.#stopListening?.();
      this.#stopListening = undefined;
    }
  }

  /**
   * Thousands that are due together would block the event loop: the rest stays due, and comes when the loop has turned.
   * But not where a clock was set, which has told all that is due by then before it returns.
   */
  #run(due: readonly T[], now: number): void {
    const until = this.#clock === undefined ? performance.now() + BURST : Infinity;
    for (const entry of due) {
      // Another one may have scheduled it again, or cleared it.
      if (entry.place >= 0 || entry.deadline === Infinity) continue;
      if (until === Infinity || performance.now() < until) entry.run(now);
      else this.#due.add(entry);
    }
  }
}
