import { afterTurn, defer } from './host.js';

/**
 * The maximum number of consecutive calls from the microtask queue. The next call waits for a turn of the
 * event loop, so that timers and messages can run.
 */
const IN_A_ROW = 1024;

/**
 * Defers a call to the microtask queue. If the call is requested several times before it runs, it runs once.
 */
export class DeferredCall {
  readonly #call: () => void;
  #scheduled = false;
  #inARow = 0;

  constructor(run: () => void) {
    this.#call = () => {
      this.#scheduled = false;
      run();
    };
  }

  /** If this throws, nothing has changed (preserves T1). */
  schedule(): void {
    if (this.#scheduled) return;
    if (this.#inARow < IN_A_ROW) {
      defer(this.#call, undefined);
      this.#inARow++;
    } else {
      afterTurn(this.#call);
      this.#inARow = 0;
    }
    this.#scheduled = true;
  }
}
