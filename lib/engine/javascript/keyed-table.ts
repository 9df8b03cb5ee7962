import { threadId } from 'node:worker_threads';
import { LONGEST_DELAY } from '../../common/alarm.js';
import { GRANTED, type Outcome, type Request } from '../contract/engine.js';
import { cellsOf, fillHeader } from '../contract/header.js';
import { byteLengthFor, ENGINE_JAVASCRIPT } from '../contract/layout.js';
import { QUEUED } from '../contract/lock-word.js';
import { hasPermits, type Mode } from '../contract/mode.js';
import type { TableMemory, TableShape } from '../contract/table-memory.js';
import { JavaScriptExactKeys } from './exact-keys.js';
import type { Pending, StripeQueue } from './pending.js';
import { JavaScriptTable } from './table.js';
import { localMemory } from './thread.js';
import { Words } from './words.js';

/**
 * A lock on exact keys, of one thread: no other thread can open it. So whoever blocks for what is held would wait for its own
 * thread, and is refused.
 *
 * A `vm` timeout may end a call of the program at each beginning of a function or of a round of a loop. What a script had taken
 * when it was ended, it keeps.
 */
export class KeyedTable extends JavaScriptTable {
  readonly keys: JavaScriptExactKeys;
  readonly #words: Words;
  #memory: TableMemory | undefined;

  constructor(shape: TableShape) {
    const buffer = new ArrayBuffer(byteLengthFor(shape.stripes));
    fillHeader(buffer, 0, ENGINE_JAVASCRIPT, shape);
    const words = new Words(new Int32Array(buffer), threadId + 1, shape.limit);
    super(shape.stripes, words, cellsOf(buffer, 0), LONGEST_DELAY);
    this.#words = words;
    this.keys = new JavaScriptExactKeys(this);
  }

  get memory(): TableMemory {
    return (this.#memory ??= localMemory(this));
  }

  acquireSync({ stripes, taken, mode, timeout }: Request): Outcome {
    const passes = timeout > 0;
    for (let i = taken; i < stripes.length; i++) {
      const stripe = stripes[i]!;
      if (this.#take(stripe, mode, passes)) continue;
      if (passes && this.displaceAll() && this.#take(stripe, mode, passes)) continue;
      const outcome = passes ? this.deadlock(stripe, false) : this.timedOut(stripe);
      this.#giveBackFirst(stripes, i, mode);
      return outcome;
    }
    return GRANTED;
  }

  protected override get end(): number {
    return this.keys.end;
  }

  protected arrive(stripe: number, mode: Mode): boolean {
    return this.#take(stripe, mode, false);
  }

  protected takeFor({ stripe }: StripeQueue, { mode }: Pending): boolean {
    const words = this.#words;
    const word = words.load(stripe);
    if (words.hasRoom(word, mode)) return words.take(stripe, word, mode, QUEUED);
    words.exchange(stripe, word, word | QUEUED);
    return false;
  }

  protected passOn(): void {
    // `giveBack` has it served.
  }

  protected headLeft(): void {
    // The next is served.
  }

  protected emptied({ stripe }: StripeQueue): void {
    const word = this.#words.load(stripe);
    this.#words.exchange(stripe, word, word & ~QUEUED);
  }

  protected look(): void {
    this.serveDue();
  }

  /** `passes`: not only if nobody waits for it (Q2). But a reader does not pass a writer. */
  #take(stripe: number, mode: Mode, passes: boolean): boolean {
    const words = this.#words;
    const word = words.load(stripe);
    if (!words.hasRoom(word, mode)) return false;
    const mayPass = passes && ((word & ~QUEUED) === 0 || hasPermits(this.limit));
    if (!mayPass && this.queues.get(stripe)?.first !== undefined) return false;
    return words.take(stripe, word, mode, 0);
  }

  #giveBackFirst(stripes: readonly number[], count: number, mode: Mode): void {
    try {
      for (let i = count - 1; i >= 0; i--) this.giveBack(stripes[i]!, mode);
    } catch {
      // A stack overflow. The rest stays held: the caller counts on all being given back, and must not do it again.
    }
  }
}
