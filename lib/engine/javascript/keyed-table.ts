import { threadId } from 'node:worker_threads';
import { LONGEST_DELAY } from '../../common/alarm.js';
import { DeadlineTimer } from '../../common/deadline-timer.js';
import { defer } from '../../common/host.js';
import type { StripedLockStats, StripeState } from '../../common/types.js';
import { GRANTED, type AsyncWaiter, type LockTable, type Outcome, type Request } from '../contract/engine.js';
import { cellsOf, fillHeader } from '../contract/header.js';
import { byteLengthFor, ENGINE_JAVASCRIPT, METRIC_CELLS, wordIndex } from '../contract/layout.js';
import { HOLDER_MASK, QUEUED } from '../contract/lock-word.js';
import { admits, firstWord, hasPermits, modeOfWord, mostHolds, type Mode } from '../contract/mode.js';
import { parseNote } from '../contract/note.js';
import { readStats } from '../contract/stats.js';
import type { TableMemory, TableShape } from '../contract/table-memory.js';
import { fnv1a } from './hash.js';
import { afterTurn, clock, makeRoom } from './host.js';
import { JavaScriptExactKeys } from './exact-keys.js';
import { LocalNotes } from './local-notes.js';
import { LocalQueue, Pending } from './local-queue.js';
import { localMemory } from './thread.js';

/** What has the first `taken` of its stripes. */
interface Holder {
  readonly stripes: readonly number[];
  readonly mode: Mode;
  taken: number;
}

/** So often in a row waiters are served without a turn of the event loop. */
const IN_A_ROW = 64;

/**
 * A lock on exact keys, of one thread: no other thread can open it. So whoever blocks for what is held would wait for its own
 * thread, and is refused.
 *
 * K1  A word is 0, or says how its stripe is held, plus QUEUED if acquisitions wait, or did until a moment ago. Then the
 *     fast path leaves the stripe to this table.
 * K2  An acquisition takes its stripes in ascending order, as far as they are free and nobody waits for them. It keeps
 *     those, and waits in the queue of the next one. Each queue is served in order of arrival.
 * K3  A stripe whose queue may go on is in `#due`, and `#serve` is to be called with an empty stack. Until then nobody has
 *     the stripe, and a sync acquisition may take it: those in the queue cannot run before it returns.
 * K4  Only `#serve` takes stripes for those who wait, settles them, and removes queues.
 *
 * A `vm` timeout may end a call of the program at each beginning of a function or of a round of a loop. A stack overflow may
 * end it at each call, but not once {@link makeRoom} has returned. So what has to follow from a change is put in `#due` before
 * it. What a script had taken when it was ended, it keeps.
 */
export class KeyedTable implements LockTable {
  readonly engine = 'javascript';
  readonly stripes: number;
  readonly limit: number;
  readonly words: Int32Array;
  readonly compareExchange = undefined;
  readonly firstAddress = 0;
  readonly cells: BigInt64Array;
  readonly slot = threadId + 1;
  /** For the fast path, which counts here. The words say the same. */
  shares: Int32Array | undefined = undefined;
  readonly names = new JavaScriptExactKeys(this);
  readonly #most: number;
  readonly #queues = new Map<number, LocalQueue>();
  readonly #waiting = new Map<AsyncWaiter, Pending>();
  /** Those that wait and have some of their stripes. */
  readonly #partial = new Set<Pending>();
  /** Those that gave them back to a sync acquisition, and are to wait for the first of them again. */
  readonly #displaced = new Set<Pending>();
  readonly #due = new Set<number>();
  #isScheduled = false;
  #inARow = 0;
  readonly #timer = new DeadlineTimer<Pending>(clock, () => this.#onTimer(), false);
  readonly #notes = new LocalNotes();
  #memory: TableMemory | undefined;

  constructor(shape: TableShape) {
    const { stripes, limit } = shape;
    this.stripes = stripes;
    this.limit = limit;
    const buffer = new ArrayBuffer(byteLengthFor(stripes));
    fillHeader(buffer, 0, ENGINE_JAVASCRIPT, shape);
    this.words = new Int32Array(buffer);
    this.cells = cellsOf(buffer, 0);
    this.#most = mostHolds(limit);
  }

  get memory(): TableMemory {
    return (this.#memory ??= localMemory(this));
  }

  openShares(): Int32Array {
    return (this.shares ??= new Int32Array(this.stripes));
  }

  hash(key: string | Uint8Array): number {
    return fnv1a(key) % this.stripes;
  }

  acquireSync(request: Request): Outcome {
    makeRoom();
    const { stripes, taken, mode, timeout } = request;
    let blocked = this.#firstBlocked(request, taken, timeout > 0);
    if (blocked < stripes.length && timeout > 0 && this.#partial.size > 0) {
      for (const entry of this.#partial) this.#displace(entry);
      blocked = this.#firstBlocked(request, taken, true);
    }
    if (blocked === stripes.length) {
      this.#take(stripes, taken, blocked, mode);
      return GRANTED;
    }
    const stripe = stripes[blocked]!;
    const outcome: Outcome =
      timeout > 0
        ? { status: 'deadlock', threads: [threadId], stripes: [stripe], waited: false }
        : { status: 'timeout', stripe, holders: this.holders(stripe) };
    this.#giveBack({ stripes, mode, taken });
    return outcome;
  }

  acquireAsync(request: Request, waiter: AsyncWaiter): Outcome | undefined {
    if (request.timeout === 0) return this.acquireSync(request);
    makeRoom();
    const { stripes, taken, mode } = request;
    if (this.#firstBlocked(request, taken, false) === stripes.length) {
      this.#take(stripes, taken, stripes.length, mode);
      return GRANTED;
    }
    const entry = new Pending(waiter, request, clock());
    this.#timer.ringBy(Math.min(entry.deadline, entry.since + LONGEST_DELAY));
    this.#timer.add(entry);
    this.#timer.keepAlive(true);
    // No timer is set from here on, which takes far more stack than what follows.
    this.#waiting.set(waiter, entry);
    Atomics.add(this.cells, METRIC_CELLS.waiting, 1n);
    Atomics.add(this.cells, METRIC_CELLS.contended, 1n);
    this.#advance(entry, false);
    return undefined;
  }

  acquiringAsync(): void {
    return;
  }

  cancel(waiter: AsyncWaiter): boolean {
    makeRoom();
    const entry = this.#waiting.get(waiter);
    if (entry === undefined) return false;
    this.#drop(entry);
    return true;
  }

  release(stripe: number, mode: Mode): void {
    makeRoom();
    this.#giveBack({ stripes: [stripe], mode, taken: 1 });
  }

  holders(stripe: number): number[] {
    return this.isHeld(stripe) ? [threadId] : [];
  }

  isHeld(stripe: number): boolean {
    return (this.words[wordIndex(stripe)]! & HOLDER_MASK) !== 0;
  }

  /** Those of the stripes that are held, or that acquisitions ask for that wait. */
  used(stripes: Iterable<number>): Set<number> {
    const wanted = new Set<number>();
    for (const entry of this.#waiting.values()) {
      // The word of a queue says so itself.
      if (entry.stripes.length > 1) for (const stripe of entry.stripes) wanted.add(stripe);
    }
    const used = new Set<number>();
    for (const stripe of stripes)
      if (this.words[wordIndex(stripe)] !== 0 || wanted.has(stripe)) used.add(stripe);
    return used;
  }

  addNote(stripes: Int32Array, note: string): number {
    return this.#notes.add(stripes, note);
  }

  removeNote(id: number): void {
    this.#notes.remove(id);
  }

  stats(): StripedLockStats {
    return readStats(this.engine, this.stripes, this.names.inUse(), this.cells);
  }

  inspect(): StripeState[] {
    const states: StripeState[] = [];
    for (let stripe = 0; stripe < this.names.end; stripe++) {
      const holders = this.#holdersNow(stripe);
      const waiters = this.#waitersNow(stripe);
      const mode = modeOfWord(this.words[wordIndex(stripe)]!, this.limit)?.name;
      if (holders.length > 0 || waiters.length > 0) states.push({ stripe, mode, holders, waiters });
    }
    return states;
  }

  #holdersNow(stripe: number): StripeState['holders'] {
    if (!this.isHeld(stripe)) return [];
    const traced = this.#notes.holdersOf(stripe, threadId);
    if (!hasPermits(this.limit)) return traced;
    const permits = this.words[wordIndex(stripe)]! & HOLDER_MASK;
    return Array.from({ length: permits }, (_, i) => traced[i] ?? { threadId });
  }

  #waitersNow(stripe: number): StripeState['waiters'] {
    const now = clock();
    const waiters: StripeState['waiters'] = [];
    for (let entry = this.#queues.get(stripe)?.first; entry !== undefined; entry = entry.next) {
      const { mode, since, note } = entry;
      const waiter = { threadId, kind: 'async', mode: mode.name, waitingFor: now - since } as const;
      waiters.push(note === undefined ? waiter : { ...waiter, keys: parseNote(note).keys });
    }
    return waiters;
  }

  /**
   * The index of the first stripe from there on that cannot be taken. `passes`: not only if nobody waits for it, as in K3.
   * But a reader does not pass a writer.
   */
  #firstBlocked({ stripes, mode }: Request | Pending, from: number, passes: boolean): number {
    let i = from;
    for (; i < stripes.length; i++) {
      const stripe = stripes[i]!;
      const held = this.words[wordIndex(stripe)]! & ~QUEUED;
      if (held !== 0 && !admits(held, mode, this.#most)) break;
      const mayPass = passes && (held === 0 || hasPermits(this.limit));
      if (!mayPass && this.#queues.get(stripe)?.first !== undefined) break;
    }
    return i;
  }

  /** Takes the stripes from index `from` up to `to`, which can be taken. */
  #take(stripes: readonly number[], from: number, to: number, mode: Mode): void {
    const { words } = this;
    const first = firstWord(mode, this.slot);
    for (let i = from; i < to; i++) {
      const index = wordIndex(stripes[i]!);
      const word = words[index]!;
      words[index] = (word & ~QUEUED) === 0 ? word | first : word + 1;
    }
  }

  /** Gives back all that it has. */
  #giveBack(holder: Holder): void {
    const { words } = this;
    const { stripes, mode } = holder;
    for (let i = 0; i < holder.taken; i++) {
      const stripe = stripes[i]!;
      if ((words[wordIndex(stripe)]! & QUEUED) !== 0) this.#due.add(stripe);
    }
    this.#schedule();
    while (holder.taken > 0) {
      const index = wordIndex(stripes[holder.taken - 1]!);
      const word = words[index]!;
      words[index] = mode.counted && (word & HOLDER_MASK) > 1 ? word - 1 : word & QUEUED;
      holder.taken--;
    }
  }

  /** Takes what it can have for an acquisition. True: all. Else it waits: at the front of its queue if `first`. */
  #advance(entry: Pending, first: boolean): boolean {
    const { stripes, mode } = entry;
    const blocked = this.#firstBlocked(entry, entry.taken, false);
    this.#take(stripes, entry.taken, blocked, mode);
    entry.taken = blocked;
    if (blocked === stripes.length) return true;
    if (blocked > 0) this.#partial.add(entry);
    const stripe = stripes[blocked]!;
    let queue = this.#queues.get(stripe);
    if (queue === undefined) this.#queues.set(stripe, (queue = new LocalQueue(stripe)));
    this.words[wordIndex(stripe)]! |= QUEUED;
    if (first) queue.unshift(entry);
    else queue.push(entry);
    return false;
  }

  /** Has an acquisition give back what it took. It begins again before those who came later. */
  #displace(entry: Pending): void {
    this.#displaced.add(entry);
    // It may be the first where it waits.
    this.#due.add(entry.wanted);
    this.#giveBack(entry);
    this.#partial.delete(entry);
  }

  /** Removes an acquisition, which is settled, or not going to be. */
  #drop(entry: Pending): void {
    const { queue } = entry;
    if (queue !== undefined) this.#due.add(queue.stripe);
    this.#giveBack(entry);
    queue?.remove(entry);
    this.#forget(entry);
  }

  #forget(entry: Pending): void {
    if (!this.#waiting.delete(entry.waiter)) return;
    this.#partial.delete(entry);
    this.#displaced.delete(entry);
    this.#timer.remove(entry);
    Atomics.sub(this.cells, METRIC_CELLS.waiting, 1n);
    if (this.#waiting.size === 0) this.#timer.keepAlive(false);
  }

  #schedule(): void {
    if (this.#isScheduled || (this.#due.size === 0 && this.#displaced.size === 0)) return;
    if (++this.#inARow < IN_A_ROW) {
      defer(this.#serveAll, undefined);
    } else {
      this.#inARow = 0;
      afterTurn(this.#serveAll);
    }
    // Noted last: where the call fails, nothing is scheduled.
    this.#isScheduled = true;
  }

  readonly #serveAll = (): void => {
    this.#isScheduled = false;
    do {
      for (const entry of [...this.#displaced].sort((a, b) => b.since - a.since)) {
        this.#displaced.delete(entry);
        entry.queue?.remove(entry);
        this.#due.add(entry.wanted);
        if (this.#advance(entry, true)) this.#settle(entry, GRANTED);
      }
      for (const stripe of this.#due) {
        this.#due.delete(stripe);
        this.#serve(stripe);
        // Code of the program may have run.
        if (this.#displaced.size > 0) break;
      }
    } while (this.#due.size > 0 || this.#displaced.size > 0);
  };

  #serve(stripe: number): void {
    const queue = this.#queues.get(stripe);
    if (queue === undefined) return;
    const index = wordIndex(stripe);
    for (let head; (head = queue.first) !== undefined;) {
      // Somebody else's code was cut off when it had given back what this one had.
      if (head.wanted !== stripe) this.#displaced.add(head);
      if (this.#displaced.size > 0) {
        this.#due.add(stripe);
        return;
      }
      const held = this.words[index]! & ~QUEUED;
      if (held !== 0 && !admits(held, head.mode, this.#most)) return;
      queue.remove(head);
      this.#take([stripe], 0, 1, head.mode);
      head.taken++;
      if (this.#advance(head, false)) this.#settle(head, GRANTED);
    }
    this.words[index]! &= ~QUEUED;
    this.#queues.delete(stripe);
  }

  #settle(entry: Pending, outcome: Outcome): void {
    this.#forget(entry);
    try {
      entry.waiter.settle(outcome);
    } catch {
      defer(() => entry.waiter.settle(outcome), undefined);
    }
  }

  #onTimer(): void {
    this.#serveAll();
    const now = clock();
    for (let entry; (entry = this.#timer.first) !== undefined && entry.deadline <= now;) {
      this.#timer.remove(entry);
      if (!this.#waiting.has(entry.waiter)) continue;
      const stripe = entry.wanted;
      const outcome: Outcome = { status: 'timeout', stripe, holders: this.holders(stripe) };
      this.#drop(entry);
      this.#settle(entry, outcome);
    }
    if (this.#waiting.size > 0)
      this.#timer.ringBy(Math.min(this.#timer.first?.deadline ?? Infinity, now + LONGEST_DELAY));
  }
}
