import { MessageChannel, type MessagePort } from 'node:worker_threads';

/** What keeps the event loop alive for those of {@link SignalTimer} that are to. */
let keeper: MessagePort | undefined;
let keeping = 0;

/** A timer for where the package is loaded while timers are faked: what fakes them leaves this as it is. */
export class SignalTimer {
  readonly #signal: AbortSignal;
  readonly #callback: () => void;
  #keeps = false;
  readonly #onAbort = (): void => {
    this.unref();
    this.#callback();
  };

  constructor(callback: () => void, milliseconds: number) {
    this.#callback = callback;
    this.#signal = AbortSignal.timeout(milliseconds);
    this.#signal.addEventListener('abort', this.#onAbort, { once: true });
    this.ref();
  }

  ref(): void {
    if (this.#keeps) return;
    this.#keeps = true;
    keeper ??= new MessageChannel().port1;
    if (++keeping === 1) keeper.ref();
  }

  unref(): void {
    if (!this.#keeps) return;
    this.#keeps = false;
    if (--keeping === 0) keeper?.unref();
  }

  stop(): void {
    this.unref();
    this.#signal.removeEventListener('abort', this.#onAbort);
  }
}
