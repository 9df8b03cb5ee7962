import type { OpenedNamedLocks } from '../engine/contract/named-lock-engine.js';
import type { NamedLocks } from '../engine/contract/named-locks.js';

/** A manager as this thread's requests know it. It joins the engine when that is first needed. */
export class ManagerContext {
  readonly name: string;
  readonly #open: () => OpenedNamedLocks;
  #opened: OpenedNamedLocks | undefined = undefined;

  constructor(name: string, open: () => OpenedNamedLocks) {
    this.name = name;
    this.#open = open;
  }

  /** Throws a LockError if another version of this package uses the addon in this thread. */
  get opened(): OpenedNamedLocks {
    return (this.#opened ??= this.#open());
  }

  get locks(): NamedLocks {
    return this.opened.locks;
  }
}
