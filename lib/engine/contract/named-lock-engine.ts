import type { NamedLocks } from './named-locks.js';

/** A manager, as the threads of an engine name it to each other. */
export interface OpenedNamedLocks {
  readonly locks: NamedLocks;
  /** Names it in a handle. */
  readonly number: number;
}

/** Makes and opens managers of named locks, for all threads that have the same {@link id}. */
export interface NamedLockEngine {
  readonly name: 'native' | 'javascript';
  /** What a handle must carry to be opened here. */
  readonly id: readonly [number, number];
  /** The one that exists without being made: {@link OpenedNamedLocks.number} is 0. */
  shared(): OpenedNamedLocks;
  create(): OpenedNamedLocks;
  /** Throws a LockError, code ERR_LOCK_ENGINE, for a number that was not given out. */
  open(number: number): OpenedNamedLocks;
}
