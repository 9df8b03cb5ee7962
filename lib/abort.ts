/** Something that an AbortSignal can put an end to. */
export interface Abortable {
  /** Called once, when the signal is aborted. Must not throw. */
  abort(reason: unknown): void;
}

/**
 * All that waits with one signal, behind one listener: a listener for each would make Node warn of a leak at the
 * eleventh, and search a list of all of them to remove one.
 */
class Abortables {
  readonly #signal: AbortSignal;
  readonly #members = new Set<Abortable>();

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  add(member: Abortable): void {
    if (this.#members.size === 0) this.#signal.addEventListener('abort', this);
    this.#members.add(member);
  }

  delete(member: Abortable): void {
    this.#members.delete(member);
    if (this.#members.size === 0) this.#signal.removeEventListener('abort', this);
  }

  handleEvent(): void {
    const members = [...this.#members];
    this.#members.clear();
    this.#signal.removeEventListener('abort', this);
    for (const member of members) member.abort(this.#signal.reason);
  }
}

const waiting = new WeakMap<AbortSignal, Abortables>();

/** Calls `member.abort` when the signal is aborted, unless {@link forgetAbort} is called before. */
export function awaitAbort(signal: AbortSignal, member: Abortable): void {
  let members = waiting.get(signal);
  if (!members) waiting.set(signal, (members = new Abortables(signal)));
  members.add(member);
}

export function forgetAbort(signal: AbortSignal, member: Abortable): void {
  waiting.get(signal)?.delete(member);
}
