// A `ProcessLock` as the contract of locks between threads sees one: with a handle that says where the file
// is, and a number for each key.

import { ProcessLock } from 'stripelock/process';

export class ProcessUnderTest extends ProcessLock {
  /** Keys never share anything, so each has a separate number. */
  #numbers = new Map();

  get handle() {
    return { kind: 'process', path: this.path, timeout: this.timeout };
  }

  static from({ path, timeout }) {
    return new ProcessUnderTest({ path, timeout });
  }

  stripeOf(key) {
    const known = this.#numbers.get(key) ?? this.#numbers.size;
    this.#numbers.set(key, known);
    return known;
  }

  inspect() {
    return super.inspect().map((state) => ({
      ...state,
      stripe: this.stripeOf(state.key),
      mode: state.holders.length === 0 ? undefined : state.mode,
    }));
  }

  stateOf(...keys) {
    return super.stateOf(...withKey(keys));
  }

  isLocked(...keys) {
    return super.isLocked(...withKey(keys));
  }
}

/** The other locks have no key that stands for none. */
function withKey([key]) {
  return [key === undefined ? null : key];
}
