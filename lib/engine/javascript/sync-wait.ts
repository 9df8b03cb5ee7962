import { availableParallelism } from 'node:os';
import { performance, queueMicrotask } from '../../common/host.js';
import { GRANTED, GRANTED_LATE, type Outcome, type Request } from '../contract/engine.js';
import { METRIC_CELLS } from '../contract/layout.js';
import type { Mode } from '../contract/mode.js';
import {
  KEPT,
  POLL,
  patience,
  placeFor,
  type Cause,
  type StripeLines,
  type Waiting,
} from './stripe-lines.js';
import type { JavaScriptTable } from './table.js';
import { type Blocked, recover, thread } from './thread.js';

/**
 * The maximum number of times that a thread checks a word before it sleeps. That many checks take 10 to 30
 * microseconds, about as long as waking a thread.
 */
const MOST_SPINS = availableParallelism() > 1 ? 500 : 0;
const LEAST_SPINS = MOST_SPINS >> 4;
/**
 * The current number of checks before a sleep. After checks that led to a grant, the number is doubled; after
 * other checks, it is halved.
 */
let spins = MOST_SPINS;

/** `Atomics.pause` exists since Node 24. */
const pause = (Atomics as { pause?: () => void }).pause ?? ((): void => undefined);

let recoversSoon = false;

/** Makes sure that {@link recover} runs soon, even if this thread does not use tables again. */
function recoverSoon(): void {
  if (recoversSoon) return;
  queueMicrotask(() => {
    recoversSoon = false;
    recover();
  });
  recoversSoon = true;
}

/**
 * A sync acquisition of this thread, with a record of all its changes. A `vm` timeout can end the acquisition
 * at any point, without running a `finally` block. In that case {@link recover} undoes the recorded changes.
 */
export class SyncWait implements Blocked, Waiting {
  readonly #table: JavaScriptTable;
  readonly #lines: StripeLines;
  readonly #request: Request;
  readonly #stripes: readonly number[];
  readonly #mode: Mode;
  /** The acquisition holds the first `#taken` of its stripes. */
  #taken: number;
  /** If the wait is undone, the caller still holds the first `#kept` stripes. */
  #kept = 0;
  /** The stripe that the acquisition waits for, or -1. */
  #stripe = -1;
  since = 0;
  readonly isLasting: boolean;
  gaveWayTo = 0;
  #isCounted = false;
  #isAside = false;

  constructor(table: JavaScriptTable, request: Request) {
    this.#table = table;
    this.#lines = table.lines;
    this.#request = request;
    this.#stripes = request.stripes;
    this.#mode = request.mode;
    this.#taken = request.taken;
    this.isLasting = request.timeout === Infinity;
  }

  run(): Outcome {
    thread.blocked = this;
    try {
      const outcome = this.#acquire();
      if (outcome.status === 'granted') this.#finish();
      else this.#fail();
      return outcome;
    } catch (error) {
      // The caller releases the stripes that it held before the request, and `recover` releases all others.
      this.#kept = this.#request.taken;
      throw error;
    }
  }

  undo(): void {
    this.#leave();
    for (; this.#taken > this.#kept; this.#taken--)
      this.#table.releaseStripe(this.#stripes[this.#taken - 1]!, this.#mode);
    this.#finish();
  }

  #acquire(): Outcome {
    const stripes = this.#stripes;
    const { timeout } = this.#request;
    for (let stripe; (stripe = stripes[this.#taken]) !== undefined;) {
      // An acquisition with a timeout of 0 must not pass waiters of this thread. A blocking acquisition may
      // take a stripe that is kept for these waiters (preserves Q2 of `table.ts`).
      const queue = this.#table.queues.get(stripe);
      if (timeout === 0 && queue !== undefined) break;
      if (!this.#take(stripe, queue?.isKept === true ? KEPT : POLL)) break;
    }
    if (this.#taken === stripes.length) return GRANTED;
    if (timeout === 0) return this.#table.timedOut(stripes[this.#taken]!);
    for (const stripe of stripes.slice(this.#taken))
      if (this.#waitsForItself(stripe)) return this.#deadlock(stripe, false);
    const deadline = performance.now() + timeout;
    const { cells } = this.#table;
    Atomics.add(cells, METRIC_CELLS.waiting, 1n);
    this.#isCounted = true;
    Atomics.add(cells, METRIC_CELLS.contended, 1n);
    while (this.#taken < stripes.length) {
      const failure = this.#waitFor(stripes[this.#taken]!, deadline);
      if (failure !== undefined) return failure;
    }
    return GRANTED_LATE;
  }

  #take(stripe: number, cause: Cause): boolean {
    if (!this.#lines.arrive(stripe, this.#mode, cause)) return false;
    this.#taken++;
    const queue = this.#table.queues.get(stripe);
    if (queue !== undefined) queue.isKept = false;
    this.#table.entered(stripe, this.#mode);
    return true;
  }

  /**
   * Blocks until the stripe is taken, and returns undefined. If that fails, returns the outcome of the
   * acquisition.
   */
  #waitFor(stripe: number, deadline: number): Outcome | undefined {
    if (this.#spin(stripe)) return undefined;
    const lines = this.#lines;
    this.since = performance.now();
    this.gaveWayTo = 0;
    let cause: Cause = POLL;
    let nap = patience.shortest;
    this.#stripe = stripe;
    for (;;) {
      const place = placeFor(this.since);
      const index = lines.place(stripe, place);
      const events = Atomics.load(lines.memory, index);
      if (lines.takeOrQueue(stripe, this.#mode, cause, this)) {
        this.#taken++;
        this.#stripe = -1;
        lines.endWait(stripe, this.#mode, this);
        this.#table.entered(stripe, this.#mode);
        return undefined;
      }
      // A writer that waits for a shared hold of this thread may have arrived since the last check. In that
      // case, this wait would never end.
      const isDeadlock = this.#waitsForItself(stripe);
      const left = deadline - performance.now();
      if (isDeadlock || left <= 0) {
        this.#leave();
        return isDeadlock ? this.#deadlock(stripe, true) : this.#table.timedOut(stripe);
      }
      this.#standAside();
      const woken = Atomics.wait(lines.memory, index, events, Math.min(left, nap));
      cause = woken === 'ok' ? place : POLL;
      if (woken === 'timed-out') nap = Math.min(2 * nap, patience.longest);
    }
  }

  #spin(stripe: number): boolean {
    for (let i = 0; i < spins; i++) {
      if (this.#take(stripe, POLL)) {
        spins = Math.min(2 * spins, MOST_SPINS);
        return true;
      }
      pause();
    }
    spins = Math.max(spins >> 1, LEAST_SPINS);
    return false;
  }

  /** Whether a wait for the stripe would never end, because this thread itself holds the stripe. */
  #waitsForItself(stripe: number): boolean {
    if (!this.#lines.blocksItself(stripe, this.#mode)) return false;
    // `#standAside` releases the holds of this thread's acquisitions that are not settled yet. `relay`
    // clears QUEUED if a dead writer left it behind.
    this.#standAside();
    this.#lines.relay(stripe);
    return this.#lines.blocksItself(stripe, this.#mode);
  }

  #deadlock(stripe: number, waited: boolean): Outcome {
    return { status: 'deadlock', threads: [this.#table.slot - 1], stripes: [stripe], waited };
  }

  /**
   * Makes this thread's async acquisitions release their stripes before the thread blocks, because a blocked
   * thread cannot serve them.
   */
  #standAside(): void {
    if (this.#isAside) return;
    recoverSoon();
    this.#isAside = true;
    for (const table of thread.waiting) table.standAside();
  }

  /** Ends the wait for the current stripe, if there is one. */
  #leave(): void {
    const stripe = this.#stripe;
    this.#stripe = -1;
    if (stripe >= 0) this.#lines.leave(stripe, this.#mode, this);
  }

  #fail(): void {
    try {
      this.undo();
    } catch {
      // `recover` will undo the remaining changes.
    }
  }

  #finish(): void {
    if (this.#isCounted) Atomics.sub(this.#table.cells, METRIC_CELLS.waiting, 1n);
    this.#isCounted = false;
    if (this.#isAside) for (const table of thread.waiting) table.resume();
    thread.blocked = undefined;
  }
}
