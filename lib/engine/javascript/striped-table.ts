/// <reference lib="es2024.sharedmemory" />
import { availableParallelism } from 'node:os';
import { performance, queueMicrotask } from '../../common/host.js';
import { GRANTED, GRANTED_LATE, type Outcome, type Request } from '../contract/engine.js';
import { cellsOf } from '../contract/header.js';
import { METRIC_CELLS } from '../contract/layout.js';
import type { Mode } from '../contract/mode.js';
import type { TableMemory } from '../contract/table-memory.js';
import { patience } from './patience.js';
import type { Pending, StripeQueue } from './pending.js';
import { causeOf, placeFor, StripeLines, type Place } from './stripe-lines.js';
import { JavaScriptTable } from './table.js';
import { type Blocked, recover, type StandsAside, tellWaiting, thread } from './thread.js';
import { HANDED, LOOKS, type Cause } from './words.js';

/** How often a thread looks at a word before it sleeps: for 10 to 30 microseconds, about what it takes to wake a thread. */
const MOST_SPINS = availableParallelism() > 1 ? 500 : 0;
const LEAST_SPINS = MOST_SPINS >> 4;

/** From Node 24 on. */
const pause = (Atomics as { pause?: () => void }).pause ?? ((): void => undefined);

/**
 * For so long, in milliseconds, a stripe that others wait for may go from one waiter of this thread to the next without
 * the detour through the event loop.
 */
const LONGEST_KEPT = 1;
/** So many async acquisitions may pass by waiters of their thread in a row. */
const IN_A_ROW = 64;

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

/** One thread's view of a lock whose stripes are in shared memory; `stripe-lines.ts` says how they pass between threads. */
export class StripedTable extends JavaScriptTable implements StandsAside {
  readonly memory: TableMemory;
  readonly keys = undefined;
  readonly #lines: StripeLines;
  #isAside = false;
  #passedBy = 0;
  #lookedAt = 0;
  /** Halved when spinning got nothing, doubled when it did. */
  #spins = MOST_SPINS;

  constructor(buffer: SharedArrayBuffer, stripes: number, slot: number) {
    const lines = new StripeLines(new Int32Array(buffer), slot, 1);
    super(stripes, lines, cellsOf(buffer, 0), patience.eventLoop);
    this.memory = { arena: undefined, buffer, offset: 0, local: undefined };
    this.#lines = lines;
  }

  acquireSync(request: Request): Outcome {
    recover();
    const wait = new SyncWait(this, request);
    try {
      const outcome = this.#acquireSync(request, wait);
      wait.end(outcome.status === 'granted');
      return outcome;
    } catch (error) {
      // A stack overflow. The caller gives back what it had taken itself, and `recover` the rest.
      wait.kept = request.taken;
      throw error;
    }
  }

  override acquireAsync(request: Request, waiter: Pending['waiter']): Outcome | undefined {
    recover();
    // It could not pass by.
    this.#passedBy = 0;
    return super.acquireAsync(request, waiter);
  }

  override acquiringAsync(): void {
    if (++this.#passedBy < IN_A_ROW || this.queues.size === 0) return;
    this.#passedBy = 0;
    for (const stripe of this.queues.keys()) this.due.add(stripe);
    queueMicrotask(this.serveDue);
  }

  override cancel(waiter: Pending['waiter']): boolean {
    recover();
    return super.cancel(waiter);
  }

  override release(stripe: number, mode: Mode): void {
    recover();
    super.release(stripe, mode);
  }

  /** For {@link SyncWait}. */
  giveBackTaken(stripe: number, mode: Mode): void {
    this.giveBack(stripe, mode);
  }

  /** The same. */
  leaveStripe(stripe: number, mode: Mode): void {
    if (!mode.counted) this.#lines.writerLeaves(stripe);
    this.#lines.relay(stripe);
  }

  standAside(): void {
    if (this.#isAside) return;
    this.#isAside = true;
    this.displaceAll();
    for (const queue of this.queues.values()) {
      this.#endSleep(queue);
      if (queue.isKept) this.#lines.relay(queue.stripe);
      queue.isKept = false;
    }
  }

  resume(): void {
    this.#isAside = false;
    for (const stripe of this.queues.keys()) this.serveSoon(stripe);
  }

  leave(): void {
    this.standAside();
    for (const queue of this.queues.values())
      for (const { isCounted } of queue) if (isCounted) Atomics.sub(this.cells, METRIC_CELLS.waiting, 1n);
  }

  protected arrive(stripe: number, mode: Mode): boolean {
    if (!this.#lines.arrive(stripe, mode, LOOKS)) return false;
    this.#entered(stripe, mode);
    return true;
  }

  protected takeFor(queue: StripeQueue, { mode, since }: Pending, cause: Cause): boolean {
    const lines = this.#lines;
    const { stripe } = queue;
    const first = queue.isKept ? HANDED : cause;
    queue.isKept = false;
    tellWaiting(this);
    for (let why = first; ; why = LOOKS) {
      const place = placeFor(since);
      const events = Atomics.load(lines.memory, lines.place(stripe, place));
      if (lines.takeOrQueue(stripe, mode, why)) {
        this.#entered(stripe, mode);
        return true;
      }
      // Its release, which is this table's, goes on with the queue.
      if (queue.sleep !== undefined || lines.isOwn(stripe) || this.#sleep(queue, place, events)) return false;
    }
  }

  protected passOn(stripe: number): void {
    const queue = this.queues.get(stripe);
    if (queue?.first !== undefined && !this.#isAside) {
      const now = performance.now();
      if (queue.keptSince === 0) queue.keptSince = now;
      queue.isKept = now - queue.keptSince < LONGEST_KEPT;
      if (queue.isKept) return;
      queue.keptSince = 0;
    }
    this.#lines.handOver(stripe);
  }

  protected headLeft({ stripe }: StripeQueue, mode: Mode): void {
    this.leaveStripe(stripe, mode);
  }

  protected emptied(queue: StripeQueue): void {
    // A sleep that never ends keeps the table from being collected.
    this.#endSleep(queue);
    if (this.queues.size === 0) thread.waiting.delete(this);
  }

  protected look(now: number): void {
    recover();
    if (now - this.#lookedAt < patience.eventLoop) return;
    this.#lookedAt = now;
    for (const stripe of this.queues.keys()) this.serve(stripe, LOOKS);
  }

  #entered(stripe: number, mode: Mode): void {
    if (mode.counted) this.#lines.letReadersIn(stripe);
  }

  /** False: the stripe's word has changed already. */
  #sleep(queue: StripeQueue, place: Place, events: number): boolean {
    const { stripe } = queue;
    const { memory } = this.#lines;
    const wait = Atomics.waitAsync(memory, this.#lines.place(stripe, place), events, Infinity);
    if (!wait.async) return false;
    const sleep = { place };
    queue.sleep = sleep;
    void wait.value.then(() => {
      if (queue.sleep !== sleep) return;
      queue.sleep = undefined;
      queue.keptSince = 0;
      recover();
      this.serve(stripe, causeOf(place));
    });
    return true;
  }

  /** The queue follows calls to its stripe no longer. */
  #endSleep(queue: StripeQueue): void {
    const { stripe, sleep } = queue;
    if (sleep === undefined) return;
    queue.sleep = undefined;
    // It is unknown which of those who sleep there is this one.
    this.#lines.wakeAll(stripe, sleep.place);
    this.#lines.relay(stripe);
  }

  #acquireSync(request: Request, wait: SyncWait): Outcome {
    const { stripes, mode, timeout } = request;
    for (let stripe; (stripe = stripes[wait.taken]) !== undefined;) {
      // Keeps Q2.
      const cause = timeout > 0 && this.queues.get(stripe)?.isKept === true ? HANDED : LOOKS;
      if (!this.#take(stripe, mode, cause, wait)) break;
    }
    if (wait.taken === stripes.length) return GRANTED;
    if (timeout === 0) return this.timedOut(stripes[wait.taken]!);
    for (const stripe of stripes.slice(wait.taken))
      if (this.#waitsForItself(stripe, mode, wait)) return this.deadlock(stripe, false);
    const deadline = performance.now() + timeout;
    wait.count();
    while (wait.taken < stripes.length) {
      const failure = this.#waitFor(stripes[wait.taken]!, mode, deadline, wait);
      if (failure !== undefined) return failure;
    }
    return GRANTED_LATE;
  }

  #take(stripe: number, mode: Mode, cause: Cause, wait: SyncWait): boolean {
    if (!this.#lines.arrive(stripe, mode, cause)) return false;
    wait.taken++;
    const queue = this.queues.get(stripe);
    if (queue !== undefined) queue.isKept = false;
    this.#entered(stripe, mode);
    return true;
  }

  /** Blocks for a stripe. Undefined: taken. */
  #waitFor(stripe: number, mode: Mode, deadline: number, wait: SyncWait): Outcome | undefined {
    if (this.#spin(stripe, mode, wait)) return undefined;
    const lines = this.#lines;
    const since = performance.now();
    let cause: Cause = LOOKS;
    let nap = patience.shortest;
    wait.stripe = stripe;
    for (;;) {
      const place = placeFor(since);
      const index = lines.place(stripe, place);
      const events = Atomics.load(lines.memory, index);
      if (lines.takeOrQueue(stripe, mode, cause)) {
        wait.taken++;
        wait.stripe = -1;
        this.#entered(stripe, mode);
        return undefined;
      }
      // A writer may have come that waits for this thread's share.
      const isDeadlock = this.#waitsForItself(stripe, mode, wait);
      const left = deadline - performance.now();
      if (isDeadlock || left <= 0) {
        wait.leave();
        return isDeadlock ? this.deadlock(stripe, true) : this.timedOut(stripe);
      }
      wait.standAside();
      const woken = Atomics.wait(lines.memory, index, events, Math.min(left, nap));
      cause = woken === 'ok' ? causeOf(place) : LOOKS;
      if (woken === 'timed-out') nap = Math.min(2 * nap, patience.longest);
    }
  }

  #spin(stripe: number, mode: Mode, wait: SyncWait): boolean {
    for (let i = 0; i < this.#spins; i++) {
      if (this.#take(stripe, mode, LOOKS, wait)) {
        this.#spins = Math.min(2 * this.#spins, MOST_SPINS);
        return true;
      }
      pause();
    }
    this.#spins = Math.max(this.#spins >> 1, LEAST_SPINS);
    return false;
  }

  /** Whether a wait for the stripe would never end, because this thread itself holds it. */
  #waitsForItself(stripe: number, mode: Mode, wait: SyncWait): boolean {
    if (!this.#lines.standsInItsOwnWay(stripe, mode)) return false;
    // It may be held for an acquisition that is not settled; and a writer that waited may have died.
    wait.standAside();
    this.#lines.relay(stripe);
    return this.#lines.standsInItsOwnWay(stripe, mode);
  }
}

/**
 * A sync wait of this thread, and a note of all that it has changed. The end of a `vm` timeout can cut it off, so that not
 * even a `finally` runs. Then {@link recover} undoes what the note says.
 */
class SyncWait implements Blocked {
  /** How many of its stripes it holds, from the front. */
  taken: number;
  /** How many of them are left to the caller if the wait is undone. */
  kept = 0;
  /** The stripe that it waits for, or -1. */
  stripe = -1;
  readonly #table: StripedTable;
  readonly #stripes: readonly number[];
  readonly #mode: Mode;
  #isCounted = false;
  #isAside = false;

  constructor(table: StripedTable, { stripes, taken, mode }: Request) {
    this.#table = table;
    this.#stripes = stripes;
    this.#mode = mode;
    this.taken = taken;
    thread.blocked = this;
  }

  count(): void {
    const { cells } = this.#table;
    Atomics.add(cells, METRIC_CELLS.waiting, 1n);
    this.#isCounted = true;
    Atomics.add(cells, METRIC_CELLS.contended, 1n);
  }

  /** The thread is about to block: nothing can be delivered to its async acquisitions. */
  standAside(): void {
    if (this.#isAside) return;
    recoverSoon();
    this.#isAside = true;
    for (const table of thread.waiting) table.standAside();
  }

  /** It does not wait for its stripe any more. */
  leave(): void {
    const { stripe } = this;
    this.stripe = -1;
    if (stripe >= 0) this.#table.leaveStripe(stripe, this.#mode);
  }

  end(granted: boolean): void {
    if (granted) {
      this.#finish();
      return;
    }
    try {
      this.undo();
    } catch {
      // A stack overflow: `recover` does the rest.
    }
  }

  undo(): void {
    this.leave();
    for (; this.taken > this.kept; this.taken--)
      this.#table.giveBackTaken(this.#stripes[this.taken - 1]!, this.#mode);
    this.#finish();
  }

  #finish(): void {
    if (this.#isCounted) Atomics.sub(this.#table.cells, METRIC_CELLS.waiting, 1n);
    this.#isCounted = false;
    if (this.#isAside) for (const table of thread.waiting) table.resume();
    thread.blocked = undefined;
  }
}
