/// <reference lib="es2024.sharedmemory" />
// Threads of the JavaScript engine that are terminated: a waiter ends before each of its steps on shared memory in turn.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { wordIndex } from '../../../unbundled/engine/contract/layout.js';
import { QUEUED } from '../../../unbundled/engine/contract/lock-word.js';
import { EXCLUSIVE_MODE, PERMIT_MODE, SHARED_MODE } from '../../../unbundled/engine/contract/mode.js';
import { FRONT, POLL, patience, StripeLines } from '../../../unbundled/engine/javascript/stripe-lines.js';

const STRIPE = 0;
const STEPS = ['load', 'store', 'add', 'and', 'compareExchange', 'notify'] as const;

const atomics = Atomics as unknown as Record<(typeof STEPS)[number], (...of: unknown[]) => number>;

class Terminated extends Error {}

/** A thread that ends before its step of this number. */
class MortalThread {
  /** Whether it ever came to hold the stripe. */
  took = false;
  hasEnded = false;
  readonly #last: number;
  #steps = 0;

  constructor(last: number) {
    this.#last = last;
  }

  /** Runs code of the thread, unless that has ended. */
  run(code: () => void): void {
    if (this.hasEnded) return;
    for (const name of STEPS) {
      const step = atomics[name];
      vi.spyOn(atomics, name).mockImplementation((...of) => {
        if (this.#steps++ === this.#last) throw new Terminated();
        const found = step(...of);
        if (name === 'compareExchange') this.#note(found, of as unknown as [unknown, number, number, number]);
        return found;
      });
    }
    try {
      code();
    } catch (error) {
      if (!(error instanceof Terminated)) throw error;
      this.hasEnded = true;
    } finally {
      vi.restoreAllMocks();
    }
  }

  /** Other changes of the word by a waiter change only its flag. */
  #note(found: number, [, index, expected, next]: [unknown, number, number, number]): void {
    if (index === wordIndex(STRIPE) && found === expected && (found & ~QUEUED) !== (next & ~QUEUED))
      this.took = true;
  }
}

describe('a waiter that is terminated between any two steps', () => {
  const usual = { ...patience };
  // All that a dead thread keeps from others for a while has run out.
  beforeEach(() => void Object.assign(patience, { reserved: -1, longest: -1 }));
  afterEach(() => void Object.assign(patience, usual));

  for (const [what, mode, holding, limit] of [
    ['exclusive', EXCLUSIVE_MODE, EXCLUSIVE_MODE, 1],
    ['exclusive, behind a reader', EXCLUSIVE_MODE, SHARED_MODE, 1],
    ['shared', SHARED_MODE, EXCLUSIVE_MODE, 1],
    ['a permit', PERMIT_MODE, PERMIT_MODE, 2],
  ] as const) {
    for (const course of ['is called', 'is not called', 'has given up'] as const) {
      it(`leaves the key free unless it took it: ${what}, ${course}`, () => {
        let deaths = 0;
        let isCut = true;
        for (let last = 0; isCut; last++) {
          const memory = new Int32Array(new SharedArrayBuffer(4 * wordIndex(1)));
          const [holder, dead, next] = [1, 2, 3].map((slot) => new StripeLines(memory, slot, limit)) as [
            StripeLines,
            StripeLines,
            StripeLines,
          ];
          for (let i = 0; i < limit; i++) expect(holder.arrive(STRIPE, holding, POLL)).toBe(true);
          const release = (): void => {
            if (holder.release(STRIPE, holding)) holder.handOver(STRIPE);
          };
          const waiting = { since: performance.now() - 50, isLasting: true, gaveWayTo: 0 };
          const thread = new MortalThread(last);
          thread.run(() => void dead.takeOrQueue(STRIPE, mode, POLL, waiting));
          expect(thread.took).toBe(false);
          if (course === 'is called') {
            // A release calls only a thread that sleeps.
            const index = dead.place(STRIPE, FRONT);
            if (!thread.hasEnded) void Atomics.waitAsync(memory, index, Atomics.load(memory, index));
            release();
          }
          thread.run(() => {
            if (course === 'is called') dead.takeOrQueue(STRIPE, mode, FRONT, waiting);
            else if (course === 'has given up') dead.leave(STRIPE, mode, waiting);
          });
          if (course !== 'is called') release();
          const isFree = next.arrive(STRIPE, limit > 1 ? PERMIT_MODE : EXCLUSIVE_MODE, POLL);
          expect(isFree, `ended before step ${last}`).toBe(!thread.took);
          isCut = thread.hasEnded;
          if (isCut) deaths++;
        }
        expect(deaths).toBeGreaterThan(1);
      });
    }
  }
});
