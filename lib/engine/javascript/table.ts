/// <reference lib="es2024.sharedmemory" />
import { threadId } from 'node:worker_threads';
import { DeadlineTimer } from '../../common/deadlines.js';
import { afterTurn, defer, performance, queueMicrotask } from '../../common/host.js';
import type { StripedLockStats, StripeState } from '../../common/types.js';
import {
  GRANTED,
  GRANTED_LATE,
  type AsyncWaiter,
  type LockTable,
  type Outcome,
  type Request,
  type StripeCounts,
} from '../contract/engine.js';
import { cellsOf } from '../contract/header.js';
import { METRIC_CELLS } from '../contract/layout.js';
import { HOLDER_MASK } from '../contract/lock-word.js';
import { hasPermits, modeOfWord, type Mode } from '../contract/mode.js';
import { parseNote } from '../contract/note.js';
import { readStats } from '../contract/stats.js';
import type { TableMemory, TableShape } from '../contract/table-memory.js';
import { JavaScriptExactKeys } from './exact-keys.js';
import { fnv1a } from './hash.js';
import { Pending, StripeQueue } from './pending.js';
import { BACK, KEPT, POLL, patience, placeFor, StripeLines, type Cause, type Place } from './stripe-lines.js';
import { SyncWait } from './sync-wait.js';
import { localMemory, recover, addWaitingTable, thread, type StandsAside } from './thread.js';

/**
 * The number of consecutive microtasks that serve waiters before the event loop gets a turn. Also the number
 * of consecutive async acquisitions that may pass waiters of the same thread.
 */
const IN_A_ROW = 64;
const NONE: ReadonlySet<number> = new Set();

interface Note {
  readonly stripes: Int32Array;
  readonly text: string;
  /** When the note was added, by `performance.now()`. */
  readonly since: number;
}

/**
 * One thread's view of a lock on the JavaScript engine. `stripe-lines.ts` has the rules by which stripes pass
 * between threads, and `sync-wait.ts` blocks a thread. This class serves the acquisitions that wait on the
 * thread's event loop.
 *
 * Q1  An acquisition takes its stripes in ascending order. It stops at the first stripe that is not
 *     available, or that other acquisitions of this thread already wait for. It then waits in the queue of
 *     this stripe, and keeps the stripes that it has taken. A queue serves its oldest acquisition first.
 * Q2  If a queue may take its stripe, the stripe is in `#due`, and the stripe's word has QUEUED. `#serve`
 *     runs only with an empty stack. Until `#serve` runs, the stripe is reserved for the queue but not held.
 *     A blocking acquisition of this thread may take the stripe, because the queued acquisitions cannot run
 *     before the blocking call returns.
 * Q3  Only `#serve` and the timer settle acquisitions, and only `#serve` removes a queue.
 * Q4  The stripes of a waiting acquisition can be released at any time. The acquisition then waits for them
 *     again, in its old place.
 *
 * A lock on exact keys belongs to a single thread, because no other thread can open it. So its stripes pass
 * from waiter to waiter within this class. A blocking acquisition of a held key is refused, because the
 * thread would wait for itself.
 *
 * A stack overflow can end any call of this class's methods. A stripe may then stay held, or a waiter may be
 * served late, but exclusion is kept, and nothing is released twice. A `vm` timeout can end a call wherever a
 * function or a loop iteration starts. Stripes that the ended script had taken stay held.
 */
export class JavaScriptTable implements LockTable, StandsAside {
  readonly engine = 'javascript';
  readonly stripes: number;
  readonly limit: number;
  readonly words: Int32Array;
  readonly contention = undefined;
  readonly tryEnter = undefined;
  readonly compareExchange = undefined;
  readonly firstAddress = 0;
  readonly cells: BigInt64Array;
  readonly slot = threadId + 1;
  readonly keys: JavaScriptExactKeys | undefined;
  readonly lines: StripeLines;
  readonly queues = new Map<number, StripeQueue>();
  readonly #due = new Set<number>();
  readonly #notes = new Map<number, Note>();
  readonly #timer = new DeadlineTimer<Pending>(performance.now, () => this.#onTimer(), false);
  #memory: TableMemory | undefined = undefined;
  #lastNote = 0;
  #arrivals = 0;
  #waiting = 0;
  /** The number of waiting acquisitions that request several stripes. */
  #waitingForSeveral = 0;
  #isScheduled = false;
  #inARow = 0;
  #passedBy = 0;
  #polledAt = 0;
  #isAside = false;

  constructor(buffer: SharedArrayBuffer, { stripes, exact, limit }: TableShape) {
    this.stripes = stripes;
    this.limit = limit;
    this.words = new Int32Array(buffer);
    this.cells = cellsOf(buffer, 0);
    this.keys = exact ? new JavaScriptExactKeys(this) : undefined;
    this.lines = new StripeLines(this.words, this.slot, limit);
  }

  get memory(): TableMemory {
    const buffer = this.words.buffer as SharedArrayBuffer;
    return (this.#memory ??=
      this.keys === undefined
        ? { arena: undefined, buffer, offset: 0, local: undefined }
        : localMemory(this));
  }

  get shares(): Int32Array | undefined {
    return this.lines.shares;
  }

  openShares(): Int32Array {
    return this.lines.openShares();
  }

  hash(key: string | Uint8Array): number {
    return fnv1a(key) % this.stripes;
  }

  acquireSync(request: Request): Outcome {
    recover();
    return new SyncWait(this, request).run();
  }

  acquireAsync(request: Request, waiter: AsyncWaiter): Outcome | undefined {
    if (request.timeout === 0) return this.acquireSync(request);
    recover();
    // `#passedBy` counts consecutive acquisitions on the fast path, so the count restarts here.
    this.#passedBy = 0;
    const entry = new Pending(waiter, ++this.#arrivals, request, performance.now());
    if (this.#advance(entry)) return GRANTED;
    waiter.queue = entry;
    this.#timer.keepAlive(true);
    this.#timer.add(entry);
    this.#fireBy(entry.deadline, entry.since);
    Atomics.add(this.cells, METRIC_CELLS.contended, 1n);
    Atomics.add(this.cells, METRIC_CELLS.waiting, 1n);
    this.#waiting++;
    if (entry.stripes.length > 1) this.#waitingForSeveral++;
    // `isWaiting` is set last. If an earlier line throws, the acquisition is dropped later, and the caller
    // releases the stripes that it held before this call.
    entry.isWaiting = true;
    return undefined;
  }

  acquiringAsync(): void {
    if (++this.#passedBy < IN_A_ROW || this.queues.size === 0 || this.keys !== undefined) return;
    this.#passedBy = 0;
    for (const stripe of this.queues.keys()) this.#due.add(stripe);
    queueMicrotask(this.#serveDue);
  }

  cancel(waiter: AsyncWaiter): boolean {
    recover();
    const entry = waiter.queue;
    if (!(entry instanceof Pending)) return false;
    this.#drop(entry);
    return true;
  }

  release(stripe: number, mode: Mode): void {
    recover();
    this.releaseStripe(stripe, mode);
  }

  holders(stripe: number): number[] {
    return this.lines.holders(stripe);
  }

  addNote(stripes: Int32Array, text: string): number {
    this.#notes.set(++this.#lastNote, { stripes, text, since: performance.now() });
    return this.#lastNote;
  }

  removeNote(id: number): void {
    this.#notes.delete(id);
  }

  stats(): StripedLockStats {
    return readStats(this.engine, this.stripes, this.held(), this.cells);
  }

  held(): number {
    let held = 0;
    for (let stripe = 0; stripe < this.#end; stripe++)
      if ((this.lines.load(stripe) & HOLDER_MASK) !== 0) held++;
    return held;
  }

  counts(stripe: number): StripeCounts {
    return { word: this.lines.load(stripe), waiting: this.queues.get(stripe)?.size ?? 0 };
  }

  inspect(): StripeState[] {
    const states: StripeState[] = [];
    for (let stripe = 0; stripe < this.#end; stripe++) {
      const word = this.lines.load(stripe);
      const mode = modeOfWord(word, this.limit)?.name;
      const waiters = [...(this.queues.get(stripe) ?? [])].map(stateOf);
      if (mode !== undefined || waiters.length > 0)
        states.push({ stripe, mode, holders: this.#holdersNow(stripe, word), waiters });
    }
    return states;
  }

  /**
   * All stripes of those waiting acquisitions that request several stripes. If an acquisition requests a
   * single stripe and waits, the stripe's word shows that the stripe is in use.
   */
  wanted(): ReadonlySet<number> {
    if (this.#waitingForSeveral === 0) return NONE;
    const wanted = new Set<number>();
    for (const queue of this.queues.values())
      for (const { stripes } of queue)
        if (stripes.length > 1) for (const stripe of stripes) wanted.add(stripe);
    return wanted;
  }

  standAside(): void {
    if (this.#isAside) return;
    this.#isAside = true;
    for (const entry of [...this.queues.values()].flatMap((queue) => [...queue])) this.#displace(entry);
    for (const queue of this.queues.values()) {
      this.#endSleep(queue);
      const { first, stripe } = queue;
      // This thread is about to block, so the thread's waiting writer cannot respond to a wake. The writer
      // must not keep readers of other threads waiting.
      if (first !== undefined) this.lines.leave(stripe, first.mode, first);
      queue.isKept = false;
    }
  }

  resume(): void {
    this.#isAside = false;
    for (const stripe of this.queues.keys()) this.#serveSoon(stripe);
  }

  leave(): void {
    this.standAside();
    for (const queue of this.queues.values())
      for (const { isWaiting } of queue) if (isWaiting) Atomics.sub(this.cells, METRIC_CELLS.waiting, 1n);
  }

  /** Releases one hold. If this throws, nothing has changed. */
  releaseStripe(stripe: number, mode: Mode): void {
    // Serving is scheduled first, because a `vm` timeout may end this call. Scheduling does no harm if no
    // waiter can be served.
    if (this.queues.has(stripe)) this.#serveSoon(stripe);
    if (!this.lines.release(stripe, mode)) return;
    try {
      this.#passOn(stripe);
    } catch {
      // The stripe is already free (preserves T1), and its waiters take it when they poll.
    }
  }

  /** Call this after a stripe was taken. If a reader took the stripe, wakes the waiting readers. */
  entered(stripe: number, mode: Mode): void {
    if (mode.counted && this.keys === undefined) this.lines.wakeReaders(stripe);
  }

  timedOut(stripe: number): Outcome {
    return { status: 'timeout', stripe, holders: this.holders(stripe) };
  }

  /** The first stripe that was never used. All stripes above it were never used either. */
  get #end(): number {
    return this.keys?.end ?? this.stripes;
  }

  #holdersNow(stripe: number, word: number): StripeState['holders'] {
    const [holder] = this.holders(stripe);
    if (holder === undefined) return [];
    const now = performance.now();
    const traced = [...this.#notes.values()]
      .filter(({ stripes }) => holder === this.slot - 1 && stripes.includes(stripe))
      .map(({ text, since }) => ({ threadId: holder, heldFor: now - since, ...parseNote(text) }));
    const shown = hasPermits(this.limit) ? word & HOLDER_MASK : traced.length || 1;
    return Array.from({ length: shown }, (_, i) => traced[i] ?? { threadId: holder });
  }

  /**
   * Takes the acquisition's next stripes until a stripe is not available. Returns true if the acquisition now
   * has all its stripes. Otherwise the acquisition waits in the queue of that stripe.
   */
  #advance(entry: Pending): boolean {
    for (; entry.taken < entry.stripes.length; entry.taken++) {
      const stripe = entry.wanted;
      if (!this.queues.has(stripe) && this.lines.arrive(stripe, entry.mode, POLL)) {
        this.entered(stripe, entry.mode);
        continue;
      }
      const queue = this.#enqueue(entry);
      if (queue.first !== entry || !this.#takeFor(queue, entry, POLL)) return false;
      this.#leaveQueue(entry);
      this.#serveSoon(stripe);
    }
    return true;
  }

  #enqueue(entry: Pending): StripeQueue {
    const stripe = entry.wanted;
    let queue = this.queues.get(stripe);
    if (queue === undefined) this.queues.set(stripe, (queue = new StripeQueue(stripe)));
    queue.add(entry);
    entry.queue = queue;
    return queue;
  }

  #leaveQueue(entry: Pending): void {
    entry.queue?.remove(entry);
    entry.queue = undefined;
  }

  #serveSoon(stripe: number): void {
    this.#due.add(stripe);
    if (this.#isScheduled) return;
    defer(this.#serveFromMicrotask, undefined);
    // `#isScheduled` is set last: if `defer` throws, nothing is scheduled.
    this.#isScheduled = true;
  }

  /**
   * Runs as a microtask, because `#serve` and calls of the host's timers require an empty stack: see
   * `DeadlineTimer`.
   */
  readonly #serveFromMicrotask = (): void => {
    if (++this.#inARow % IN_A_ROW === 0) afterTurn(this.#serveDue);
    else this.#serveDue();
  };

  readonly #serveDue = (): void => {
    this.#isScheduled = false;
    for (const stripe of this.#due) {
      this.#due.delete(stripe);
      this.#serve(stripe, POLL);
    }
  };

  /**
   * Grants a stripe to its waiters, until the stripe is not available. Call this only with an empty stack.
   */
  #serve(stripe: number, cause: Cause): void {
    const queue = this.queues.get(stripe);
    if (queue === undefined) return;
    let why = cause;
    for (let head; (head = queue.first) !== undefined;) {
      if (!head.isWaiting) {
        this.#drop(head);
        continue;
      }
      if (!this.#takeFor(queue, head, why)) return;
      why = BACK;
      this.#leaveQueue(head);
      head.taken++;
      if (!this.#advance(head)) continue;
      this.#forget(head);
      head.waiter.settle(GRANTED_LATE);
    }
    this.queues.delete(stripe);
    if (this.keys !== undefined) this.lines.open(stripe);
    // A pending `waitAsync` would prevent garbage collection of the table.
    this.#endSleep(queue);
    if (this.queues.size === 0) thread.waiting.delete(this);
  }

  /**
   * Tries to take the queue's stripe for `head`, the first waiter of the queue. If this returns false, the
   * queue will be served again after a wake, a release or a poll.
   */
  #takeFor(queue: StripeQueue, head: Pending, cause: Cause): boolean {
    const { lines } = this;
    const { stripe } = queue;
    const { mode } = head;
    // Only this thread can use its exact keys, so a stripe is never reserved for another thread.
    const isExact = this.keys !== undefined;
    const first = isExact || queue.isKept ? KEPT : cause;
    queue.isKept = false;
    addWaitingTable(this);
    for (let why = first; ; why = POLL) {
      const place = placeFor(head.since);
      const events = Atomics.load(lines.memory, lines.place(stripe, place));
      if (lines.takeOrQueue(stripe, mode, why, head)) {
        lines.endWait(stripe, mode, head);
        this.entered(stripe, mode);
        return true;
      }
      // If this thread holds the stripe, the thread's own release serves the queue, so the queue need not
      // sleep.
      if (isExact || queue.sleep !== undefined || lines.isOwn(stripe)) return false;
      if (this.#sleep(queue, place, events)) return false;
    }
  }

  /**
   * Starts a `waitAsync` on the integer `place`. When this wait is woken, the queue is served. Returns false
   * if the integer is no longer `events`, because a wake has changed it.
   */
  #sleep(queue: StripeQueue, place: Place, events: number): boolean {
    const { stripe } = queue;
    const { memory } = this.lines;
    const wait = Atomics.waitAsync(memory, this.lines.place(stripe, place), events, Infinity);
    if (!wait.async) return false;
    const sleep = { place };
    queue.sleep = sleep;
    void wait.value.then(() => {
      if (queue.sleep !== sleep) return;
      queue.sleep = undefined;
      queue.keptSince = 0;
      recover();
      this.#serve(stripe, place);
    });
    return true;
  }

  /** Ends the queue's `waitAsync`, so that this wait does not consume wakes meant for other threads. */
  #endSleep(queue: StripeQueue): void {
    const { stripe, sleep } = queue;
    if (sleep === undefined) return;
    queue.sleep = undefined;
    // All sleepers on that integer are woken, because the host cannot wake one particular sleeper.
    this.lines.wakeAll(stripe, sleep.place);
    this.lines.relay(stripe);
  }

  /** Passes a released stripe on to the next waiter, which belongs to this thread or to another thread. */
  #passOn(stripe: number): void {
    const queue = this.queues.get(stripe);
    if (queue?.first !== undefined && !this.#isAside) {
      queue.isKept = this.keys !== undefined || queue.mayKeep();
      if (queue.isKept) return;
      queue.keptSince = 0;
    }
    this.lines.handOver(stripe);
  }

  /** Releases all stripes of a waiting acquisition, because its thread is about to block (Q4). */
  #displace(entry: Pending): void {
    if (entry.taken === 0 || !entry.isWaiting) return;
    this.#serveSoon(entry.wanted);
    this.#leaveQueue(entry);
    this.#releaseTaken(entry);
    this.#enqueue(entry);
    this.#serveSoon(entry.wanted);
  }

  #releaseTaken(entry: Pending): void {
    for (; entry.taken > 0; entry.taken--) this.releaseStripe(entry.stripes[entry.taken - 1]!, entry.mode);
  }

  /** Removes an acquisition that has failed, and releases the stripes that it has taken. */
  #drop(entry: Pending): void {
    const { queue, mode } = entry;
    const wasFirst = queue?.first === entry;
    this.#leaveQueue(entry);
    if (entry.isWaiting) this.#releaseTaken(entry);
    this.#forget(entry);
    if (!wasFirst) return;
    this.lines.leave(queue.stripe, mode, entry);
    this.#serveSoon(queue.stripe);
  }

  #forget(entry: Pending): void {
    entry.waiter.queue = undefined;
    this.#timer.remove(entry);
    if (!entry.isWaiting) return;
    Atomics.sub(this.cells, METRIC_CELLS.waiting, 1n);
    if (entry.stripes.length > 1) this.#waitingForSeveral--;
    if (--this.#waiting === 0) this.#timer.keepAlive(false);
  }

  /** Sets the timer for a deadline, or for the next poll if the poll is earlier. */
  #fireBy(deadline: number, now: number): void {
    this.#timer.fireBy(Math.min(deadline, now + patience.eventLoop));
  }

  #onTimer(): void {
    recover();
    const now = performance.now();
    if (now - this.#polledAt >= patience.eventLoop) {
      this.#polledAt = now;
      for (const stripe of this.queues.keys()) this.#serve(stripe, POLL);
    }
    for (let entry; (entry = this.#timer.first) !== undefined && entry.deadline <= now;) {
      // If the acquisition can be granted now, it does not time out.
      this.#serve(entry.wanted, POLL);
      if (this.#timer.first !== entry) continue;
      const outcome = this.timedOut(entry.wanted);
      this.#drop(entry);
      if (entry.isWaiting) entry.waiter.settle(outcome);
    }
    if (this.#waiting > 0) this.#fireBy(this.#timer.first?.deadline ?? Infinity, now);
  }
}

function stateOf({ mode, since, waiter }: Pending): StripeState['waiters'][number] {
  const state = { threadId, kind: 'async', mode: mode.name, waitingFor: performance.now() - since } as const;
  return waiter.note === undefined ? state : { ...state, keys: parseNote(waiter.note).keys };
}
