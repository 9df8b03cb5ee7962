import { afterTurn, defer } from './host.js';

/**
 * The maximum number of consecutive calls from the microtask queue. After that, the event loop gets a turn for timers
 * and messages.
 */
const IN_A_ROW = 1024;

/** Defers a call to the microtask queue. Requests before the call are merged into one. */
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

  /** If this throws, nothing has changed (keeps T1). */
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
