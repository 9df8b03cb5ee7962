import type { LockMode } from '../common/types.js';

/** Whether {@link createLock} is creating a lock. */
let creating = false;
let newName = '';
let newMode: LockMode = 'exclusive';

/** Creates the lock to pass to a callback. */
export let createLock: (name: string, mode: LockMode) => Lock;

/** A granted lock, passed to the callback of a request. It cannot be constructed. */
export class Lock {
  readonly #name: string;
  readonly #mode: LockMode;

  private constructor() {
    if (!creating) throw new TypeError('Illegal constructor');
    creating = false;
    this.#name = newName;
    this.#mode = newMode;
  }

  /** The locked name. */
  get name(): string {
    return this.#name;
  }

  /** The mode in which the name is locked. */
  get mode(): LockMode {
    return this.#mode;
  }

  static {
    // The name and the mode are passed in variables, because in the standard the
    // constructor takes no arguments.
    createLock = (name, mode) => {
      newName = name;
      newMode = mode;
      creating = true;
      return new Lock();
    };
    const { prototype } = this;
    for (const member of ['name', 'mode']) Object.defineProperty(prototype, member, { enumerable: true });
    Object.defineProperty(prototype, Symbol.toStringTag, { value: 'Lock', configurable: true });
  }
}
