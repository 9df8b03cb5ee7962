import { MessageChannel, type MessagePort } from 'node:worker_threads';

/** Keeps the event loop alive while any {@link SignalTimer} should. */
let keeper: MessagePort | undefined;
let keeping = 0;

/**
 * The timer for a package that was loaded while timers were faked. Fake timers do not replace `AbortSignal.timeout`.
 */
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
