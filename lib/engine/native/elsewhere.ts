import type { AsyncWaiter, Outcome } from '../contract/engine.js';

/** How many acquisitions of one thread wait in the addon for each stripe, but for stand-ins (`local-waits.ts`). */
export class Elsewhere {
  readonly #stripes: number;
  #counts: Int32Array | undefined = undefined;

  constructor(stripes: number) {
    this.#stripes = stripes;
  }

  has(stripe: number): boolean {
    return this.#counts !== undefined && this.#counts[stripe] !== 0;
  }

  /**
   * Counts a waiter that `ask` makes wait there, and returns what that returned. It is counted before: a loop can end in a
   * stack overflow, as V8 looks at the stack where it begins anew, and then the waiter would be lost (keeps T1).
   */
  join(waiter: AsyncWaiter, ask: () => Outcome | undefined): Outcome | undefined {
    const counts = (this.#counts ??= new Int32Array(this.#stripes));
    const { stripes } = waiter;
    for (let i = 0; i < stripes.length; i++) counts[stripes[i]!]!++;
    try {
      const outcome = ask();
      // From here on this calls nothing (keeps T1).
      if (outcome === undefined) waiter.queue = this;
      return outcome;
    } finally {
      if (waiter.queue !== this) {
        try {
          for (let i = 0; i < stripes.length; i++) counts[stripes[i]!]!--;
        } catch {
          // The stack overflowed as above. Some count too many: later ones wait in the addon, too, though they need not.
        }
      }
    }
  }

  /** One waits there no more. If this throws, some still count, as above. */
  left(waiter: AsyncWaiter): void {
    const counts = this.#counts!;
    const { stripes } = waiter;
    waiter.queue = undefined;
    for (let i = 0; i < stripes.length; i++) counts[stripes[i]!]!--;
  }
}
