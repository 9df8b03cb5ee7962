import { afterTurn, defer } from './host.js';

/** This often in a row the microtask queue calls. Then the event loop has a turn, with its timers and messages. */
const IN_A_ROW = 1024;

/** A call from the microtask queue: one, however often it was asked for before. */
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
