import { availableParallelism } from 'node:os';
import { performance, queueMicrotask } from '../../common/host.js';
import { GRANTED, GRANTED_LATE, type Outcome, type Request } from '../contract/engine.js';
import { METRIC_CELLS } from '../contract/layout.js';
import type { Mode } from '../contract/mode.js';
import {
  KEPT,
  LOOKS,
  patience,
  placeFor,
  type Cause,
  type StripeLines,
  type Waiting,
} from './stripe-lines.js';
import type { JavaScriptTable } from './table.js';
import { type Blocked, recover, thread } from './thread.js';

/** How often a thread looks at a word before it sleeps: for 10 to 30 microseconds, about what it takes to wake a thread. */
const MOST_SPINS = availableParallelism() > 1 ? 500 : 0;
const LEAST_SPINS = MOST_SPINS >> 4;
/** Halved when spinning got nothing, doubled when it did. */
let spins = MOST_SPINS;

/** From Node 24 on. */
const pause = (Atomics as { pause?: () => void }).pause ?? ((): void => undefined);

let recoversSoon = false;

/** Has {@link recover} called even if this thread does nothing more with tables. */
function recoverSoon(): void {
  if (recoversSoon) return;
  queueMicrotask(() => {
    recoversSoon = false;
    recover();
  });
  recoversSoon = true;
}

/**
 * A sync acquisition of this thread, and a note of all that it has changed. The end of a `vm` timeout can cut it off, so that
 * not even a `finally` runs. Then {@link recover} undoes what the note says.
 */
export class SyncWait implements Blocked, Waiting {
  readonly #table: JavaScriptTable;
  readonly #lines: StripeLines;
  readonly #request: Request;
  readonly #stripes: readonly number[];
  readonly #mode: Mode;
  /** How many of its stripes it holds, from the front. */
  #taken: number;
  /** How many of them are left to the caller if the wait is undone. */
  #kept = 0;
  /** The stripe that it waits for, or -1. */
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
      // A stack overflow. The caller gives back what it had taken itself, and `recover` the rest.
      this.#kept = this.#request.taken;
      throw error;
    }
  }

  undo(): void {
    this.#leave();
    for (; this.#taken > this.#kept; this.#taken--)
      this.#table.giveBack(this.#stripes[this.#taken - 1]!, this.#mode);
    this.#finish();
  }

  #acquire(): Outcome {
    const stripes = this.#stripes;
    const { timeout } = this.#request;
    for (let stripe; (stripe = stripes[this.#taken]) !== undefined;) {
      // Keeps Q2.
      const queue = this.#table.queues.get(stripe);
      if (timeout === 0 && queue !== undefined) break;
      if (!this.#take(stripe, queue?.isKept === true ? KEPT : LOOKS)) break;
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

  /** Blocks for a stripe. Undefined: taken. */
  #waitFor(stripe: number, deadline: number): Outcome | undefined {
    if (this.#spin(stripe)) return undefined;
    const lines = this.#lines;
    this.since = performance.now();
    this.gaveWayTo = 0;
    let cause: Cause = LOOKS;
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
      // A writer may have come that waits for this thread's share.
      const isDeadlock = this.#waitsForItself(stripe);
      const left = deadline - performance.now();
      if (isDeadlock || left <= 0) {
        this.#leave();
        return isDeadlock ? this.#deadlock(stripe, true) : this.#table.timedOut(stripe);
      }
      this.#standAside();
      const woken = Atomics.wait(lines.memory, index, events, Math.min(left, nap));
      cause = woken === 'ok' ? place : LOOKS;
      if (woken === 'timed-out') nap = Math.min(2 * nap, patience.longest);
    }
  }

  #spin(stripe: number): boolean {
    for (let i = 0; i < spins; i++) {
      if (this.#take(stripe, LOOKS)) {
        spins = Math.min(2 * spins, MOST_SPINS);
        return true;
      }
      pause();
    }
    spins = Math.max(spins >> 1, LEAST_SPINS);
    return false;
  }

  /** Whether a wait for the stripe would never end, because this thread itself holds it. */
  #waitsForItself(stripe: number): boolean {
    if (!this.#lines.standsInItsOwnWay(stripe, this.#mode)) return false;
    // It may be held for an acquisition that is not settled; and a writer that waited may have died.
    this.#standAside();
    this.#lines.relay(stripe);
    return this.#lines.standsInItsOwnWay(stripe, this.#mode);
  }

  #deadlock(stripe: number, waited: boolean): Outcome {
    return { status: 'deadlock', threads: [this.#table.slot - 1], stripes: [stripe], waited };
  }

  /** The thread is about to block: nothing can be delivered to its async acquisitions. */
  #standAside(): void {
    if (this.#isAside) return;
    recoverSoon();
    this.#isAside = true;
    for (const table of thread.waiting) table.standAside();
  }

  /** It does not wait for its stripe any more. */
  #leave(): void {
    const stripe = this.#stripe;
    this.#stripe = -1;
    if (stripe >= 0) this.#lines.leave(stripe, this.#mode, this);
  }

  #fail(): void {
    try {
      this.undo();
    } catch {
      // A stack overflow: `recover` does the rest.
    }
  }

  #finish(): void {
    if (this.#isCounted) Atomics.sub(this.#table.cells, METRIC_CELLS.waiting, 1n);
    this.#isCounted = false;
    if (this.#isAside) for (const table of thread.waiting) table.resume();
    thread.blocked = undefined;
  }
}
