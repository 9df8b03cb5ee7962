/** An operation that an AbortSignal can abort. */
export interface Abortable {
  /** Called when the signal is aborted. */
  abort(reason: unknown): void;
}

/**
 * Shares one listener among all waiters with the same signal. With one listener per waiter, Node would warn
 * about a leak at the eleventh listener, and each removal would search the list of all listeners.
 */
class Abortables {
  readonly #signal: AbortSignal;
  readonly #members = new Set<Abortable>();

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  add(member: Abortable): void {
    if (this.#members.size === 0) this.#signal.addEventListener('abort', this, { once: true });
    this.#members.add(member);
  }

  delete(member: Abortable): void {
    this.#members.delete(member);
    if (this.#members.size === 0) this.#signal.removeEventListener('abort', this);
  }

  handleEvent(): void {
    const members = [...this.#members];
    this.#members.clear();
    for (const member of members) member.abort(this.#signal.reason);
  }
}

const waiting = new WeakMap<AbortSignal, Abortables>();

/** Calls `member.abort` when the signal is aborted, unless {@link forgetAbort} is called first. */
export function awaitAbort(signal: AbortSignal, member: Abortable): void {
  let members = waiting.get(signal);
  if (!members) waiting.set(signal, (members = new Abortables(signal)));
  members.add(member);
}

/** Undoes {@link awaitAbort}. */
export function forgetAbort(signal: AbortSignal, member: Abortable): void {
  waiting.get(signal)?.delete(member);
}
