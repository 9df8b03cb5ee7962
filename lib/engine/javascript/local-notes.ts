import { performance } from '../../common/host.js';
import type { StripeState } from '../../common/types.js';
import { parseNote } from '../contract/note.js';

interface LocalNote {
  readonly stripes: Int32Array;
  readonly note: string;
  /** On performance.now()'s clock. */
  readonly since: number;
}

/** Notes on this thread's traced acquisitions. Those of other threads cannot be seen from here. */
export class LocalNotes {
  readonly #notes = new Map<number, LocalNote>();
  #nextId = 0;

  add(stripes: Int32Array, note: string): number {
    this.#notes.set(this.#nextId, { stripes, note, since: performance.now() });
    return this.#nextId++;
  }

  remove(id: number): void {
    this.#notes.delete(id);
  }

  /** How `inspect()` shows this thread's holders of a stripe. */
  holdersOf(stripe: number, threadId: number): StripeState['holders'] {
    const now = performance.now();
    const traced = [...this.#notes.values()].filter(({ stripes }) => stripes.includes(stripe));
    if (traced.length === 0) return [{ threadId }];
    return traced.map(({ note, since }) => ({ threadId, heldFor: now - since, ...parseNote(note) }));
  }
}
