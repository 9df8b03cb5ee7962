import workerThreads from 'node:worker_threads';
import type { LockTable } from '../contract/engine.js';

/**
 * What a thread's async acquisitions do while the thread is blocked in `acquireSync`, of whatever lock. Nothing can
 * be delivered to them then, so others would wait in vain for whatever they had been given, and the thread might
 * wait for one of those: a deadlock that is nobody's fault.
 */
export interface GivesWay {
  /** Leaves the place at the head of every lane. */
  withdrawClaims(): void;
  /** Gives back all that was taken for acquisitions that are not settled yet. */
  giveBack(): void;
  /** Answers calls that this thread cannot follow, by calling others. False: none can come. */
  relayCalls(): boolean;
  readonly holdsAny: boolean;
  /** The thread runs again. */
  resume(): void;
  /** The thread ends, and can follow no more calls: calls others instead. */
  leave(): void;
}

/** A sync wait that may be cut off. */
export interface Blocked {
  /** Undoes what the wait has changed. Where this throws, it can be called again. */
  undo(): void;
}

/**
 * What all copies of this package in one thread share: each evaluation of its modules is one, as in the registry of a
 * test runner, or where two packages depend on it. A blocked thread gives back what any of them holds.
 */
export interface ThreadState {
  /** All of this thread that have acquisitions pending, or may be called. */
  readonly joined: Set<GivesWay>;
  /** The sync wait under way. One that is still here when other code of the thread runs was cut off. */
  blocked: Blocked | undefined;
  /** A handle that is opened again in its own thread shares the table, which knows the thread's shared holds. */
  readonly tables: WeakMap<SharedArrayBuffer, LockTable>;
  listensForEnd: boolean;
  recoverySet: boolean;
}

/** The number changes with what the copies agree on. */
const NAME = Symbol.for('stripelock.javascript-engine.3');

/** The exports of a module of Node are the same object in all realms of a thread, which `globalThis` is not. */
const home = workerThreads as { [NAME]?: ThreadState };

export const thread: ThreadState = home[NAME] ?? {
  joined: new Set(),
  blocked: undefined,
  tables: new WeakMap(),
  listensForEnd: false,
  recoverySet: false,
};

if (home[NAME] === undefined) Object.defineProperty(home, NAME, { value: thread });
