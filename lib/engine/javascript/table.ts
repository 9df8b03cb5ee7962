import { DeadlineTimer } from '../../common/deadline-timer.js';
import { afterTurn, defer, performance, queueMicrotask } from '../../common/host.js';
import type { StripedLockStats, StripeState } from '../../common/types.js';
import {
  GRANTED,
  GRANTED_LATE,
  type AsyncWaiter,
  type LockTable,
  type Outcome,
  type Request,
} from '../contract/engine.js';
import type { ExactKeys } from '../contract/exact-keys.js';
import { METRIC_CELLS } from '../contract/layout.js';
import { HOLDER_MASK } from '../contract/lock-word.js';
import { hasPermits, modeOfWord, type Mode } from '../contract/mode.js';
import { parseNote } from '../contract/note.js';
import { readStats } from '../contract/stats.js';
import type { TableMemory } from '../contract/table-memory.js';
import { fnv1a } from './hash.js';
import { LocalNotes } from './local-notes.js';
import { Pending, StripeQueue } from './pending.js';
import { CALLED, LOOKS, type Cause, type Words } from './words.js';

/** So often in a row waiters are served without a turn of the event loop. */
const IN_A_ROW = 64;

/**
 * What both kinds of tables share: the acquisitions of one thread that wait on its event loop.
 *
 * Q1  An acquisition takes its stripes in ascending order, as far as it can have them and none of its thread waits there. It
 *     keeps those, and waits in the queue of the next one. The oldest in a queue comes first.
 * Q2  A stripe that a queue may take is in `due`, and its word has QUEUED. Until `serve` comes to it, which is called with an
 *     empty stack alone, nobody of this thread has it, and a sync acquisition may take it: those in the queue cannot run
 *     before that one returns.
 * Q3  Only `serve` and the timer settle acquisitions, and only `serve` removes a queue.
 * Q4  What an acquisition has that waits can be given back at any time, and it waits for that again, in its old place.
 *
 * A stack overflow can end any call that a program makes here. Then a stripe may stay held, or a waiter be late; but nobody
 * gets what others hold, and nothing is given back twice.
 */
export abstract class JavaScriptTable implements LockTable {
  readonly engine = 'javascript';
  readonly stripes: number;
  readonly limit: number;
  readonly words: Int32Array;
  readonly compareExchange = undefined;
  readonly firstAddress = 0;
  readonly cells: BigInt64Array;
  readonly slot: number;
  abstract readonly memory: TableMemory;
  abstract readonly keys: ExactKeys | undefined;
  protected readonly queues = new Map<number, StripeQueue>();
  protected readonly due = new Set<number>();
  /** Those that wait and have some of their stripes. */
  readonly #partial = new Set<Pending>();
  readonly #words: Words;
  readonly #notes = new LocalNotes();
  readonly #lookEvery: number;
  readonly #timer = new DeadlineTimer<Pending>(performance.now, () => this.#onTimer(), false);
  #arrivals = 0;
  #waiting = 0;
  #isScheduled = false;
  #inARow = 0;

  /** `lookEvery`: the milliseconds after which waiters look for themselves. */
  constructor(stripes: number, words: Words, cells: BigInt64Array, lookEvery: number) {
    this.stripes = stripes;
    this.limit = words.limit;
    this.words = words.memory;
    this.slot = words.slot;
    this.cells = cells;
    this.#words = words;
    this.#lookEvery = lookEvery;
  }

  get shares(): Int32Array | undefined {
    return this.#words.shares;
  }

  openShares(): Int32Array {
    return this.#words.openShares();
  }

  hash(key: string | Uint8Array): number {
    return fnv1a(key) % this.stripes;
  }

  abstract acquireSync(request: Request): Outcome;

  acquireAsync(request: Request, waiter: AsyncWaiter): Outcome | undefined {
    if (request.timeout === 0) return this.acquireSync(request);
    const entry = new Pending(waiter, ++this.#arrivals, request, performance.now());
    try {
      if (this.#advance(entry)) return GRANTED;
      waiter.queue = entry;
      this.#timer.keepAlive(true);
      this.#timer.add(entry);
      this.#ringBy(entry.deadline, entry.since);
      this.#waiting++;
      Atomics.add(this.cells, METRIC_CELLS.waiting, 1n);
      entry.isCounted = true;
      Atomics.add(this.cells, METRIC_CELLS.contended, 1n);
      return undefined;
    } catch (error) {
      // A stack overflow. The caller gives back what it had taken itself.
      entry.isLost = true;
      entry.taken = 0;
      throw error;
    }
  }

  acquiringAsync(): void {
    // Other tables need no more.
  }

  cancel(waiter: AsyncWaiter): boolean {
    const entry = waiter.queue;
    if (!(entry instanceof Pending)) return false;
    this.#drop(entry);
    return true;
  }

  release(stripe: number, mode: Mode): void {
    this.giveBack(stripe, mode);
  }

  holders(stripe: number): number[] {
    return this.#words.holders(stripe);
  }

  addNote(stripes: Int32Array, note: string): number {
    return this.#notes.add(stripes, note);
  }

  removeNote(id: number): void {
    this.#notes.remove(id);
  }

  stats(): StripedLockStats {
    return readStats(this.engine, this.stripes, this.held(), this.cells);
  }

  held(): number {
    let held = 0;
    for (let stripe = 0; stripe < this.end; stripe++) if (this.#words.isHeld(stripe)) held++;
    return held;
  }

  inspect(): StripeState[] {
    const now = performance.now();
    const states: StripeState[] = [];
    for (let stripe = 0; stripe < this.end; stripe++) {
      const word = this.#words.load(stripe);
      const mode = modeOfWord(word, this.limit)?.name;
      const waiters = [...(this.queues.get(stripe) ?? [])].map((entry) =>
        waiterOf(entry, this.slot - 1, now),
      );
      if (mode !== undefined || waiters.length > 0)
        states.push({ stripe, mode, holders: this.#holdersNow(stripe, word), waiters });
    }
    return states;
  }

  /** No stripe from here on was ever used. */
  protected get end(): number {
    return this.stripes;
  }

  /** Takes a stripe for an acquisition that has just come: not if others wait for it to become free. */
  protected abstract arrive(stripe: number, mode: Mode): boolean;
  /** Takes a stripe for the first in its queue. False: the queue waits for it. */
  protected abstract takeFor(queue: StripeQueue, head: Pending, cause: Cause): boolean;
  /** A stripe was given back that somebody waits for. */
  protected abstract passOn(stripe: number): void;
  /** The first of a queue has left it without the stripe. */
  protected abstract headLeft(queue: StripeQueue, mode: Mode): void;
  /** Nobody waits in a queue any more. */
  protected abstract emptied(queue: StripeQueue): void;
  /** The time has come for waiters to look for themselves. */
  protected abstract look(now: number): void;

  /** Gives back one hold. Where this throws, nothing has changed. */
  protected giveBack(stripe: number, mode: Mode): void {
    // First, as a `vm` timeout may end this call: a look too many does no harm.
    if (this.queues.has(stripe)) this.serveSoon(stripe);
    if (!this.#words.giveBack(stripe, mode)) return;
    try {
      this.passOn(stripe);
    } catch {
      // A stack overflow. The waiters look for themselves.
    }
  }

  /** Has the acquisitions that wait give back all that they have (Q4). False: they had nothing. */
  protected displaceAll(): boolean {
    const any = this.#partial.size > 0;
    for (const entry of this.#partial) {
      this.serveSoon(entry.wanted);
      this.#leaveQueue(entry);
      this.#giveBackTaken(entry);
      this.#enqueue(entry);
      this.serveSoon(entry.wanted);
    }
    return any;
  }

  /** Those of the stripes that are held, or that acquisitions ask for that wait. */
  used(stripes: Iterable<number>): Set<number> {
    const wanted = new Set<number>();
    for (const queue of this.queues.values())
      // The word of a queue says so itself.
      for (const { stripes: all } of queue) if (all.length > 1) for (const stripe of all) wanted.add(stripe);
    const used = new Set<number>();
    for (const stripe of stripes) if (this.#words.load(stripe) !== 0 || wanted.has(stripe)) used.add(stripe);
    return used;
  }

  protected serveSoon(stripe: number): void {
    this.due.add(stripe);
    if (this.#isScheduled) return;
    if (++this.#inARow % IN_A_ROW === 0) afterTurn(this.serveDue);
    else defer(this.serveDue, undefined);
    // Noted last: where the call fails, nothing is scheduled.
    this.#isScheduled = true;
  }

  protected readonly serveDue = (): void => {
    this.#isScheduled = false;
    for (const stripe of this.due) {
      this.due.delete(stripe);
      this.serve(stripe, LOOKS);
    }
  };

  /** Lets those go on that wait for a stripe, as far as they can have it. Call it with an empty stack. */
  protected serve(stripe: number, cause: Cause): void {
    const queue = this.queues.get(stripe);
    if (queue === undefined) return;
    let why = cause;
    for (let head; (head = queue.first) !== undefined;) {
      if (head.isLost) {
        this.#drop(head);
        continue;
      }
      if (!this.takeFor(queue, head, why)) return;
      why = CALLED;
      this.#leaveQueue(head);
      head.taken++;
      if (this.#advance(head)) this.#settle(head, GRANTED_LATE);
    }
    this.queues.delete(stripe);
    this.emptied(queue);
  }

  protected timedOut(stripe: number): Outcome {
    return { status: 'timeout', stripe, holders: this.holders(stripe) };
  }

  protected deadlock(stripe: number, waited: boolean): Outcome {
    return { status: 'deadlock', threads: [this.slot - 1], stripes: [stripe], waited };
  }

  /** Takes what it can have for an acquisition. True: all. Else it waits in the queue of the next stripe. */
  #advance(entry: Pending): boolean {
    while (entry.taken < entry.stripes.length) {
      const stripe = entry.wanted;
      if (this.queues.has(stripe) || !this.arrive(stripe, entry.mode)) {
        const queue = this.#enqueue(entry);
        if (queue.first !== entry || !this.takeFor(queue, entry, LOOKS)) return false;
        this.#leaveQueue(entry);
        this.serveSoon(stripe);
      }
      entry.taken++;
    }
    this.#partial.delete(entry);
    return true;
  }

  #enqueue(entry: Pending): StripeQueue {
    const stripe = entry.wanted;
    let queue = this.queues.get(stripe);
    if (queue === undefined) this.queues.set(stripe, (queue = new StripeQueue(stripe)));
    queue.add(entry);
    entry.queue = queue;
    if (entry.taken > 0) this.#partial.add(entry);
    return queue;
  }

  #leaveQueue(entry: Pending): void {
    const { queue } = entry;
    queue?.remove(entry);
    entry.queue = undefined;
  }

  /** Takes out an acquisition that has failed. It has nothing then. */
  #drop(entry: Pending): void {
    const { queue, mode } = entry;
    const wasFirst = queue?.first === entry;
    this.#leaveQueue(entry);
    this.#giveBackTaken(entry);
    this.#forget(entry);
    if (!wasFirst) return;
    this.headLeft(queue, mode);
    this.serveSoon(queue.stripe);
  }

  #giveBackTaken(entry: Pending): void {
    for (; entry.taken > 0; entry.taken--) this.giveBack(entry.stripes[entry.taken - 1]!, entry.mode);
    this.#partial.delete(entry);
  }

  #forget(entry: Pending): void {
    entry.waiter.queue = undefined;
    this.#timer.remove(entry);
    if (!entry.isCounted) return;
    entry.isCounted = false;
    Atomics.sub(this.cells, METRIC_CELLS.waiting, 1n);
    if (--this.#waiting === 0) this.#timer.keepAlive(false);
  }

  #settle(entry: Pending, outcome: Outcome): void {
    this.#forget(entry);
    try {
      entry.waiter.settle(outcome);
    } catch {
      queueMicrotask(() => entry.waiter.settle(outcome));
    }
  }

  /** Rings for a deadline, or for the next look if that comes before. */
  #ringBy(deadline: number, now: number): void {
    this.#timer.ringBy(Math.min(deadline, now + this.#lookEvery));
  }

  #onTimer(): void {
    const now = performance.now();
    this.look(now);
    for (let entry; (entry = this.#timer.first) !== undefined && entry.deadline <= now;) {
      // A grant that can be made now counts.
      this.serve(entry.wanted, LOOKS);
      if (this.#timer.first !== entry) continue;
      const outcome = this.timedOut(entry.wanted);
      this.#drop(entry);
      if (!entry.isLost) this.#settle(entry, outcome);
    }
    if (this.#waiting > 0) this.#ringBy(this.#timer.first?.deadline ?? Infinity, now);
  }

  #holdersNow(stripe: number, word: number): StripeState['holders'] {
    const [holder] = this.holders(stripe);
    if (holder === undefined) return [];
    if (holder !== this.slot - 1) return [{ threadId: holder }];
    const traced = this.#notes.holdersOf(stripe, holder);
    if (!hasPermits(this.limit)) return traced;
    return Array.from({ length: word & HOLDER_MASK }, (_, i) => traced[i] ?? { threadId: holder });
  }
}

function waiterOf(entry: Pending, threadId: number, now: number): StripeState['waiters'][number] {
  const { mode, since, note } = entry;
  const waiter = { threadId, kind: 'async', mode: mode.name, waitingFor: now - since } as const;
  return note === undefined ? waiter : { ...waiter, keys: parseNote(note).keys };
}
