import type { NamedLocks } from '../engine/contract/named-locks.js';

/** A manager as this thread's requests know it. It joins the engine when that is first needed. */
export class ManagerContext {
  readonly name: string;
  readonly #open: () => NamedLocks;
  #locks: NamedLocks | undefined = undefined;

  constructor(name: string, open: () => NamedLocks) {
    this.name = name;
    this.#open = open;
  }

  /** Throws a LockError if another version of this package uses the addon in this thread. */
  get locks(): NamedLocks {
    return (this.#locks ??= this.#open());
  }
}
