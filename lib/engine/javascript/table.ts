import { defer } from '../../common/host.js';
import type { StripedLockStats, StripeState } from '../../common/types.js';
import {
  GRANTED,
  GRANTED_LATE,
  type AsyncWaiter,
  type LockTable,
  type Outcome,
  type Request,
} from '../contract/engine.js';
import { cellsOf } from '../contract/header.js';
import { METRIC_CELLS } from '../contract/layout.js';
import { HOLDER_MASK, QUEUED } from '../contract/lock-word.js';
import { modeOfWord, namesHolder, type Mode } from '../contract/mode.js';
import { parseNote } from '../contract/note.js';
import { readStats } from '../contract/stats.js';
import type { TableMemory } from '../contract/table-memory.js';
import { AsyncWaits } from './async-waits.js';
import { BlockedThread, recover, type BlockedTable } from './blocking.js';
import { fnv1a } from './hash.js';
import { clock, makeRoom } from './host.js';
import { isWriter, LOOKS, SYNC_LANE } from './lanes.js';
import { LocalNotes } from './local-notes.js';
import { Stripes } from './stripes.js';
import { SyncWait } from './sync-wait.js';

/** So many async acquisitions may pass by waiters of their thread in a row. */
const IN_A_ROW = 64;

/** One thread's view of a lock whose waiters are in its shared memory alone. */
export class JavaScriptTable implements LockTable, BlockedTable {
  readonly engine = 'javascript';
  readonly stripes: number;
  readonly limit = 1;
  readonly memory: TableMemory;
  readonly words: Int32Array;
  readonly compareExchange = undefined;
  readonly firstAddress = 0;
  readonly cells: BigInt64Array;
  readonly slot: number;
  readonly names = undefined;
  readonly stripesHere: Stripes;
  readonly #syncWait: SyncWait;
  readonly #asyncWaits: AsyncWaits;
  readonly #notes = new LocalNotes();
  #passedBy = 0;

  constructor(buffer: SharedArrayBuffer, stripes: number, slot: number) {
    this.stripes = stripes;
    this.memory = { arena: undefined, buffer, offset: 0, local: undefined };
    this.words = new Int32Array(buffer);
    this.cells = cellsOf(buffer, 0);
    this.slot = slot;
    this.stripesHere = new Stripes(this.words, slot);
    this.#syncWait = new SyncWait(this.stripesHere);
    this.#asyncWaits = new AsyncWaits(this.stripesHere, {
      cells: this.cells,
      timedOut: (stripe) => this.#timedOut(stripe),
    });
  }

  get shares(): Int32Array | undefined {
    return this.stripesHere.words.shares;
  }

  openShares(): Int32Array {
    return this.stripesHere.words.openShares();
  }

  hash(key: string | Uint8Array): number {
    return fnv1a(key) % this.stripes;
  }

  /**
   * Where this throws, on a stack overflow, the caller still has what it had taken, and no more when the microtasks have
   * run.
   */
  acquireSync(request: Request): Outcome {
    recover();
    const { stripes, taken, mode, timeout } = request;
    // Most attempts that fail do so here, and have changed nothing.
    if (timeout === 0 && taken === 0 && !this.stripesHere.isOpen(stripeAt(request, 0), mode))
      return this.#timedOut(stripeAt(request, 0));
    makeRoom();
    const wait = new BlockedThread(this, stripes, mode, taken);
    try {
      const outcome = this.#acquireSync(request, wait);
      if (outcome.status === 'granted') wait.end();
      else wait.endFailed();
      return outcome;
    } catch (error) {
      wait.kept = taken;
      defer(recover, undefined);
      throw error;
    }
  }

  /** Where this throws, the same holds. */
  acquireAsync(request: Request, waiter: AsyncWaiter): Outcome | undefined {
    if (request.timeout === 0) return this.acquireSync(request);
    recover();
    return this.#asyncWaits.start(request, waiter) ? GRANTED : undefined;
  }

  /** Nothing to do: a waiter behind a busy event loop looks for itself after a while. */
  acquiringAsync(): void {
    if (++this.#passedBy < IN_A_ROW) return;
    this.#passedBy = 0;
    if (this.#asyncWaits.needsLooks) this.#asyncWaits.lookAgain();
  }

  cancel(waiter: AsyncWaiter): boolean {
    recover();
    return this.#asyncWaits.cancel(waiter);
  }

  release(stripe: number, mode: Mode): void {
    recover();
    this.#asyncWaits.release(stripe, mode);
  }

  giveBackTaken(stripe: number, mode: Mode): void {
    this.#asyncWaits.release(stripe, mode);
  }

  addNote(stripes: Int32Array, note: string): number {
    return this.#notes.add(stripes, note);
  }

  removeNote(id: number): void {
    this.#notes.remove(id);
  }

  holders(stripe: number): number[] {
    return this.#holders(stripe, this.stripesHere.words.load(stripe));
  }

  stats(): StripedLockStats {
    let held = 0;
    for (let stripe = 0; stripe < this.stripes; stripe++) {
      if ((this.stripesHere.words.load(stripe) & HOLDER_MASK) !== 0) held++;
    }
    return readStats(this.engine, this.stripes, held, this.cells);
  }

  inspect(): StripeState[] {
    const waiters = this.#waitersByStripe();
    const states: StripeState[] = [];
    for (let stripe = 0; stripe < this.stripes; stripe++) {
      const word = this.stripesHere.words.load(stripe);
      const here = waiters.get(stripe);
      if ((word & (HOLDER_MASK | QUEUED)) === 0 && here === undefined) continue;
      states.push({
        stripe,
        mode: modeOfWord(word)?.name,
        holders: this.#holdersNow(stripe, word),
        waiters: here ?? [],
      });
    }
    return states;
  }

  #holdersNow(stripe: number, word: number): StripeState['holders'] {
    return this.#holders(stripe, word).flatMap((threadId) =>
      threadId === this.slot - 1 ? this.#notes.holdersOf(stripe, threadId) : [{ threadId }],
    );
  }

  #waitersByStripe(): Map<number, StripeState['waiters']> {
    const now = clock();
    const byStripe = new Map<number, StripeState['waiters']>();
    for (const entry of this.#asyncWaits.waiting()) {
      let here = byStripe.get(entry.wanted);
      if (here === undefined) byStripe.set(entry.wanted, (here = []));
      const waiter = {
        threadId: this.slot - 1,
        kind: 'async',
        mode: entry.mode.name,
        waitingFor: now - entry.since,
      } as const;
      here.push(entry.note === undefined ? waiter : { ...waiter, keys: parseNote(entry.note).keys });
    }
    return byStripe;
  }

  #acquireSync(request: Request, wait: BlockedThread): Outcome {
    const { stripes, timeout } = request;
    this.#takeMore(request, wait);
    if (wait.taken === stripes.length) return GRANTED;
    if (timeout === 0) return this.#timedOut(stripeAt(request, wait.taken));
    return this.#waitSync(request, wait);
  }

  /** Takes as many more as are free. */
  #takeMore({ stripes, mode }: Request, wait: BlockedThread): void {
    const here = this.stripesHere;
    for (let stripe; (stripe = stripes[wait.taken]) !== undefined;) {
      // Keeps I8.
      if (here.words.arrive(stripe, mode)) {
        wait.taken++;
      } else {
        if (!here.intrude(stripe, mode)) return;
        wait.taken++;
        here.entered(stripe, mode);
      }
    }
  }

  #waitSync(request: Request, wait: BlockedThread): Outcome {
    const { stripes, mode } = request;
    const deadline = clock() + request.timeout;
    for (let i = wait.taken; i < stripes.length; i++) {
      const stripe = stripeAt(request, i);
      if (this.#waitsForItself(stripe, mode, wait)) return this.#deadlock(stripe, false);
    }
    Atomics.add(this.cells, METRIC_CELLS.contended, 1n);
    Atomics.add(this.cells, METRIC_CELLS.waiting, 1n);
    wait.isCounted = true;
    for (;;) {
      this.#takeMore(request, wait);
      if (wait.taken === stripes.length) return GRANTED_LATE;
      const stripe = stripeAt(request, wait.taken);
      // Again, as a writer may have come since, which waits for this thread's share.
      if (this.#waitsForItself(stripe, mode, wait)) return this.#deadlock(stripe, true);
      if (!this.#syncWait.waitFor(stripe, mode, deadline, wait)) return this.#timedOut(stripe);
    }
  }

  /** Whether a wait for the stripe would never end, because this thread itself holds it. */
  #waitsForItself(stripe: number, mode: Mode, thread: BlockedThread): boolean {
    if (!this.#heldAgainstItself(stripe, mode)) return false;
    // It may be held for an acquisition that is not settled.
    thread.giveBack();
    return this.#heldAgainstItself(stripe, mode);
  }

  #heldAgainstItself(stripe: number, mode: Mode): boolean {
    const stripes = this.stripesHere;
    const { words, lanes } = stripes;
    if (words.isOwn(stripe)) return true;
    if (words.sharesOf(stripe) === 0) return false;
    if (isWriter(mode)) return true;
    // QUEUED may be all that is left of a writer that gave up, or died.
    stripes.relay(stripe);
    return (words.load(stripe) & QUEUED) !== 0 && lanes.keepsReadersOut(stripe, SYNC_LANE, LOOKS);
  }

  #deadlock(stripe: number, waited: boolean): Outcome {
    return { status: 'deadlock', threads: [this.slot - 1], stripes: [stripe], waited };
  }

  #timedOut(stripe: number): Outcome {
    return { status: 'timeout', stripe, holders: this.holders(stripe) };
  }

  /** The ids of its holders' threads, as far as known. */
  #holders(stripe: number, word: number): number[] {
    if (namesHolder(word)) return [(word & HOLDER_MASK) - 1];
    return modeOfWord(word)?.counted === true && this.stripesHere.words.sharesOf(stripe) > 0
      ? [this.slot - 1]
      : [];
  }
}

function stripeAt(request: Request, index: number): number {
  return request.stripes[index] ?? -1;
}
