import type { AsyncWaiter } from '../contract/engine.js';

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

  /** By stripe. Whoever counts there calls nothing meanwhile (keeps T1). */
  ready(): Int32Array {
    return (this.#counts ??= new Int32Array(this.#stripes));
  }

  /** One waits there no more. If this throws, it still counts. */
  left(waiter: AsyncWaiter): void {
    const counts = this.#counts!;
    const { stripes } = waiter;
    for (let i = 0; i < stripes.length; i++) counts[stripes[i]!]!--;
    waiter.queue = undefined;
  }
}
