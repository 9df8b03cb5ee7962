import type { StripedLockStats, StripeState } from '../../types.js';
import { parseNote } from '../note.js';
import type { AsyncWaiter, LockTable, Outcome, Request } from '../engine.js';
import { CONTENDED_CELL, WAITING_CELL } from '../layout.js';
import { HOLDER_MASK, QUEUED, SHARED } from '../lock-word.js';
import { readStats } from '../stats.js';
import type { TableMemory } from '../table-memory.js';
import { AsyncWaits } from './async-waits.js';
import { BlockedThread } from './blocking.js';
import { fnv1a } from './hash.js';
import { LocalNotes } from './local-notes.js';
import { isExclusive, Stripes } from './stripes.js';
import { SyncWait } from './sync-wait.js';

export class JavaScriptTable implements LockTable {
  readonly engine = 'javascript';
  readonly stripes: number;
  readonly memory: TableMemory;
  readonly words: Int32Array;
  readonly compareExchange = undefined;
  readonly firstAddress = 0;
  readonly cells: BigInt64Array;
  readonly slot: number;
  readonly #stripes: Stripes;
  readonly #syncWait: SyncWait;
  readonly #asyncWaits: AsyncWaits;
  readonly #notes = new LocalNotes();

  constructor(buffer: SharedArrayBuffer, stripes: number, slot: number) {
    this.stripes = stripes;
    this.memory = { arena: undefined, buffer, offset: 0 };
    this.words = new Int32Array(buffer);
    this.cells = new BigInt64Array(buffer, 0, WAITING_CELL + 1);
    this.slot = slot;
    this.#stripes = new Stripes(this.words, slot);
    this.#syncWait = new SyncWait(this.#stripes);
    this.#asyncWaits = new AsyncWaits(this.#stripes, {
      waitEnded: () => this.#count(WAITING_CELL, -1n),
      timedOut: (stripe) => this.#timedOut(stripe),
    });
  }

  get shares(): Int32Array | undefined {
    return this.#stripes.shares;
  }

  openShares(): Int32Array {
    return this.#stripes.openShares();
  }

  hash(key: string | Uint8Array): number {
    return fnv1a(key) % this.stripes;
  }

  acquireSync(request: Request): Outcome {
    const taken = this.#takeMore(request, request.taken);
    if (taken === request.stripes.length) return { status: 'granted', abandoned: false };
    if (request.timeout === 0) return this.#fail(request, taken, this.#timedOut(stripeAt(request, taken)));
    const thread = new BlockedThread();
    try {
      return this.#waitSync(request, taken, thread);
    } finally {
      thread.end();
    }
  }

  acquireAsync(request: Request, waiter: AsyncWaiter): Outcome | undefined {
    if (request.timeout === 0) return this.acquireSync(request);
    if (this.#asyncWaits.start(request, request.taken, waiter))
      return { status: 'granted', abandoned: false };
    this.#count(CONTENDED_CELL, 1n);
    this.#count(WAITING_CELL, 1n);
    return undefined;
  }

  /** Nothing to do: who waits behind a busy event loop looks for itself after a while. */
  acquiringAsync(): void {
    return;
  }

  cancel(waiter: AsyncWaiter): boolean {
    return this.#asyncWaits.cancel(waiter);
  }

  release(stripe: number, shared: boolean): void {
    if (!shared || this.#stripes.dropShare(stripe)) this.#asyncWaits.release(stripe, shared);
  }

  addNote(stripes: Int32Array, note: string): number {
    return this.#notes.add(stripes, note);
  }

  removeNote(id: number): void {
    this.#notes.remove(id);
  }

  holders(stripe: number): number[] {
    return this.#holders(stripe, this.#stripes.word(stripe));
  }

  stats(): StripedLockStats {
    let held = 0;
    for (let stripe = 0; stripe < this.stripes; stripe++) {
      if ((this.#stripes.word(stripe) & HOLDER_MASK) !== 0) held++;
    }
    return readStats(this.engine, this.stripes, held, this.cells);
  }

  inspect(): StripeState[] {
    const waiters = this.#waitersByStripe();
    const states: StripeState[] = [];
    for (let stripe = 0; stripe < this.stripes; stripe++) {
      const word = this.#stripes.word(stripe);
      const here = waiters.get(stripe);
      if ((word & (HOLDER_MASK | QUEUED)) === 0 && here === undefined) continue;
      const shared = (word & SHARED) !== 0;
      states.push({
        stripe,
        mode: (word & HOLDER_MASK) === 0 ? undefined : shared ? 'shared' : 'exclusive',
        holders: this.#holders(stripe, word).flatMap((threadId) =>
          threadId === this.slot - 1 ? this.#notes.holdersOf(stripe, threadId) : [{ threadId }],
        ),
        waiters: here ?? [],
      });
    }
    return states;
  }

  #waitersByStripe(): Map<number, StripeState['waiters']> {
    const now = performance.now();
    const byStripe = new Map<number, StripeState['waiters']>();
    for (const entry of this.#asyncWaits.waiting()) {
      let here = byStripe.get(entry.wanted);
      if (here === undefined) byStripe.set(entry.wanted, (here = []));
      const mode = entry.shared ? 'shared' : 'exclusive';
      const waiter = { threadId: this.slot - 1, kind: 'async', mode, waitingFor: now - entry.since } as const;
      here.push(entry.note === undefined ? waiter : { ...waiter, keys: parseNote(entry.note).keys });
    }
    return byStripe;
  }

  /** Takes as many more as are free. */
  #takeMore(request: Request, from: number): number {
    let taken = from;
    while (taken < request.stripes.length && this.#stripes.arrive(stripeAt(request, taken), request.shared))
      taken++;
    return taken;
  }

  #waitSync(request: Request, from: number, thread: BlockedThread): Outcome {
    const { stripes, shared } = request;
    const deadline = performance.now() + request.timeout;
    for (let i = from; i < stripes.length; i++) {
      const stripe = stripeAt(request, i);
      if (this.#waitsForItself(stripe, shared, thread))
        return this.#fail(request, from, this.#deadlock(stripe));
    }
    this.#count(CONTENDED_CELL, 1n);
    this.#count(WAITING_CELL, 1n);
    let taken = from;
    try {
      while ((taken = this.#takeMore(request, taken)) < stripes.length) {
        const stripe = stripeAt(request, taken);
        // Again, as a writer may have come since: it would wait for this thread's share.
        if (this.#waitsForItself(stripe, shared, thread))
          return this.#fail(request, taken, this.#deadlock(stripe));
        if (!this.#syncWait.waitFor(stripe, shared, deadline, thread)) {
          return this.#fail(request, taken, this.#timedOut(stripe));
        }
        taken++;
      }
    } finally {
      this.#count(WAITING_CELL, -1n);
    }
    return { status: 'granted', abandoned: false };
  }

  /** Whether waiting for a stripe would never end, as it is up to this thread itself to release it. */
  #waitsForItself(stripe: number, shared: boolean, thread: BlockedThread): boolean {
    if (!this.#heldAgainstItself(stripe, shared)) return false;
    // It may be held for an acquisition that is not settled.
    thread.giveBack();
    return this.#heldAgainstItself(stripe, shared);
  }

  #heldAgainstItself(stripe: number, shared: boolean): boolean {
    const stripes = this.#stripes;
    if (stripes.isOwn(stripe)) return true;
    if (stripes.sharesOf(stripe) === 0) return false;
    if (!shared) return true;
    // QUEUED may be all that is left of a writer that gave up.
    stripes.relay(stripe);
    return (stripes.word(stripe) & QUEUED) !== 0;
  }

  /** Gives back what was taken. */
  #fail(request: Request, taken: number, outcome: Outcome): Outcome {
    for (let i = taken - 1; i >= 0; i--) this.release(stripeAt(request, i), request.shared);
    return outcome;
  }

  #deadlock(stripe: number): Outcome {
    return { status: 'deadlock', threads: [this.slot - 1], stripes: [stripe] };
  }

  #timedOut(stripe: number): Outcome {
    return { status: 'timeout', stripe, holders: this.holders(stripe) };
  }

  /** The thread ids that are known. */
  #holders(stripe: number, word: number): number[] {
    if (isExclusive(word)) return [(word & HOLDER_MASK) - 1];
    return (word & SHARED) !== 0 && this.#stripes.sharesOf(stripe) > 0 ? [this.slot - 1] : [];
  }

  #count(cell: number, by: bigint): void {
    Atomics.add(this.cells, cell, by);
  }
}

function stripeAt(request: Request, index: number): number {
  return request.stripes[index] ?? -1;
}
